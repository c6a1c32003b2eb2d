"""Words about each result: what it means in a sentence, its figures as facts and tables.

Results come in, a `Page` goes out; one file per result, and sentences about problems and measurements.
"""
