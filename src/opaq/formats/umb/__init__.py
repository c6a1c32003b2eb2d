"""UMB (Unified Markov Binary): what PRISM, Storm and Modest exchange."""
