"""Sweeps: one problem at many values of its parameters.

Comes in: a plan. Goes out: a journal, tables and a Study. `plan` reads it, `points` checks every point, `run` hands
them to the workers, `journal` records what comes back, `files` makes the folder, and `study` is what is read from it.
A point is a `SweepPoint` until it is solved, a `PointTask` and a `PointAnswer` on its way through a worker, and a
`StudyPoint` in the end.
"""
