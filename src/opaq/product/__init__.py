"""Model x machines -> one hidden process over the reachable product states, and the way back.

A problem and a policy class come in; a compiled problem goes out. Imports: model, automata, spec.
Secrets, observers, conditions and requirements are followed by trackers (a machine, and what its nodes mean); each of
the four *_tracker files holds a registry, so that a new kind is added by registering one function.
"""
