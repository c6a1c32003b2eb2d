"""PRISM, JANI and DRN models, built by Storm in a process of its own."""
