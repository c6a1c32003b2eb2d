"""Sweeps: one problem at many values of its parameters.

Comes in: a plan. Goes out: a journal, tables and a Study.
"""
