"""How far from the best possible: upper bounds on the opacity of every policy, with proof.

In: problems, and policies to compare with. Out: certificates. May import everything before the reports.
"""
