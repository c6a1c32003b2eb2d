"""Fronts: opacity against a requirement.

Comes in: a problem. Goes out: a Frontier.
"""
