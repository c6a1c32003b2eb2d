"""Read Cassandra's .pomdp files, with the line of every fault.

Text comes in, an `Imported` model with its own observer goes out. Imports: model, spec.
`tables` has the words and the tables they fill, `reader` the statements and the model made of them.
"""
