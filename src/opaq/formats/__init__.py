"""Files of other tools <-> models and automata.

Bytes or text come in, `model` data go out, and back. Imports: model, automata, spec, product.

One file or sub-package per format, each with its readers, its writers and the `Format` that describes it; `registry`
imports them all and finds one by the ending of a file.
"""
