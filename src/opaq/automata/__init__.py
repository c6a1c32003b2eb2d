"""Translate formulas and expressions into deterministic automata over labels, minimal and readable.

Text of a language comes in, `model.Automaton` goes out. Imports: model.

`formula` and `regex` read the two notations, `progression` steps a formula through a word, `dfa` builds tables, makes
them minimal and gives their edges short guards, and `translate` puts these together. An automaton reads one letter, a
set of labels, for each state of a run, that of the start first.
"""
