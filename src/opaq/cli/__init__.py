"""The `opaq` command: one file per command (parse, call, show), and how a command reads, waits and shows.

`options` declares what several commands take, `session` reads inputs and computes with progress and a way to stop,
`output` writes files, pages and JSON, `next_step` names the command that follows; `interrupts` listens for signals
before `main` finds the command, and `shell` turns every way it can end into an exit code.
Arguments come in; answers on stdout, all else on stderr. Imports: everything.
"""
