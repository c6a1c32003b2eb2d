"""UMB (Unified Markov Binary): what PRISM, Storm and Modest exchange.

Archives come in, `Imported` models go out, and back. Imports: model, spec.
"""
