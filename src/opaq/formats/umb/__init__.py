"""Read and write UMB (Unified Markov Binary): what PRISM, Storm and Modest exchange.

Archives come in, `Imported` models go out, and back. Imports: model, spec.
`archive` unpacks files and trusts nothing in them, `reader` makes the model, `writer` the file.
"""
