"""Figures for papers, one file per kind of result.

Comes in: a typed result, or its JSON as a mapping. Goes out: a matplotlib figure. `axes` and `style` draw the parts
that several figures share.
"""
