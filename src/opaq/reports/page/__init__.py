"""The page people look at: the data of a report -> one HTML file that needs nothing else.

Plain data come in (their keys: docs/answers.md), text goes out; style and scripts lie beside as files of their own.
Imports: `errors` and `version` alone, so that any program can show the data it has.
"""
