"""PRISM, JANI and DRN models, built by Storm in a process of its own.

The name of a file comes in, an `Imported` model goes out. Imports: model, spec and the UMB reader.
"""
