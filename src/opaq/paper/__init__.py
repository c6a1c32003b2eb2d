"""The experiments of the paper, run again and set beside its figures.

Comes in: the name of an experiment. Goes out: a table and figures. Imports: everything below `cli`.
"""
