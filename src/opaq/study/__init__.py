"""Many problems at once: the experiments of the paper.

A name comes in, tables and pictures go out. Imports: solvers, reports and what they import.
"""
