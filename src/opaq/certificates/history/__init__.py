"""The history program: the optimum over policies that see only the states, as a convex program.

Comes in: a compiled problem that is small. Goes out: an interval around the optimum, and a policy.
"""
