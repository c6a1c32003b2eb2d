"""Runs of a policy: sampled, replayed with the observer's beliefs, or acted out step by step.

A problem and a policy come in; runs go out. Imports: opacity and what it imports.
"""
