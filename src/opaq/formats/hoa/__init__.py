"""HOA (Hanoi Omega-Automata): automata of other tools, read and written as automata on finite words.

Text comes in, `model.Automaton` goes out, and back. Imports: model, spec.
"""
