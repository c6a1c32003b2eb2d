"""Fronts: opacity against a requirement.

Comes in: a problem. Goes out: a Frontier. `frontier` is the call and its steps, `search` solves for one threshold, and
`placement` says which thresholds come next.
"""
