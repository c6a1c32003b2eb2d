"""Compiled problems come in; proven limits of what any policy can reach go out, with the policies that come near them.

May import everything up to `solvers`.
"""
