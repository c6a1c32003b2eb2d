"""Problems as plain immutable data: plant, observer, secret, task, policy class, policy.

Comes in: names, numbers and arrays, from files (`opaq.spec`, `opaq.formats`) or from Python. Goes out: frozen
    dataclasses that are valid whenever they exist; everything else in opaq reads them. Imports: errors, lexer, display
    and nothing else of opaq.

- mdp, observer, secret, problem (task and requirements): what a problem consists of.
- conditions, policy: what policies may look at, and their tables.
- automaton: automata over labels and the guards on their edges.
- uncertainty: the functions of the observer's belief that a task may be about; opacity is the default.
- arrays, checks, fingerprint: array types and sparse rows; how a part checks itself; digests of content.
"""
