"""Formulas and expressions -> automata over labels, minimal and readable.

Text of a language comes in, `model.Automaton` goes out. Imports: model.
"""
