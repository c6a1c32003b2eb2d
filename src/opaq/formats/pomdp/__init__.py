"""Cassandra's .pomdp files."""
