"""How far from the best possible: upper bounds on the opacity of every policy, with proof.

Problems, and policies to compare with, come in; certificates go out. Imports: solvers and what they import.
"""
