"""The policy that hides most while the task is met.

A problem and options come in; a solution with its verdict goes out. Imports: simulation, opacity and what they import.
"""
