"""Processes and clusters that solve the points of a sweep.

Comes in: a `PointTask`. Goes out: how it ended, with a `PointAnswer` where there is one. Imports: solvers,
certificates, reports and what they import; nothing of `sweep`.
"""
