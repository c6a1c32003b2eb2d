"""Files of other tools <-> models and automata.

Bytes or text come in, `model` data go out, and back. Imports: model, automata, spec.
"""
