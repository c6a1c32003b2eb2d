"""The version of opaq."""

__version__ = "0.1.0"
