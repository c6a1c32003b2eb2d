"""Processes and clusters that solve points.

Comes in: tasks as plain data. Goes out: their answers, lost ones repeated.
"""
