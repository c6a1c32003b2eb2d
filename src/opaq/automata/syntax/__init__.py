"""The written forms of languages: LTLf and regular expressions, with the column of every fault.

Text comes in, formulas and automata go out. Imports: model.
"""
