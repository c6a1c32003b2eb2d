"""The experiments of the paper, run again and set beside its figures.

Comes in: the name of an experiment. Goes out: a table and figures. `reproduce` runs experiments by name and writes
files, `experiments` holds each of them with the published figures and settings, `outcomes` their rows and tables.
Nothing else in opaq knows of it but the command. Imports: everything below `cli`.
"""
