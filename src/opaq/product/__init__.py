"""Model x machines -> one hidden process over the reachable product states, and the way back.

A problem and a policy class come in; a compiled problem goes out. Imports: model, automata, spec.
"""
