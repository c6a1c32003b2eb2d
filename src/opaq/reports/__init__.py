"""Results -> what people and other programs look at: text, JSON, tables, pictures, files of other tools.

Results come in, text and bytes go out. Imports: everything above but solvers.
"""
