"""The decoder bound: an observation machine and a decoder on its nodes prove what no policy exceeds.

Comes in: a hidden process and an observation machine. Goes out: a proven upper bound with its multipliers.
"""
