"""Benchmarks: `python -m benchmarks` writes docs/benchmarks.md; README.md lists the other scripts of this folder."""
