"""Opacity of Markov decision processes: how little an eavesdropper learns about a secret.

The public names stand in `__init__.pyi`, where type checkers read them; each is loaded when it is first used, so that
`import opaq` and `opaq --help` stay quick.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
