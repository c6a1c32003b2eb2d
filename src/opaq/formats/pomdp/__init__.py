"""Cassandra's .pomdp files, read with the line of every fault.

Text comes in, an `Imported` model with its own observer goes out. Imports: model, spec.
"""
