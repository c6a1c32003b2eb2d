"""Lower bounds for tasks that minimise: what no policy gets below.

Comes in: the decisions of an agent that sees the product state, an uncertainty, a time. Goes out: a proven lower bound
with its multipliers, and the policy of the program where it is exact. May import beliefs, product, model, stop and the
decisions and roundings of the other certificates.
"""
