"""The `opaq` command: one thin file per command (parse, call, show).

Arguments come in; answers on stdout, all else on stderr. Imports: everything.
"""
