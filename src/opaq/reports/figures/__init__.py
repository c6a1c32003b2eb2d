"""Figures for papers, one file per kind of result.

Comes in: a typed result. Goes out: a matplotlib figure.
"""
