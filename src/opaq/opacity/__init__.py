"""What a policy gives away and earns: exact, as an interval, or estimated.

A problem and a policy come in; a measurement goes out. Imports: beliefs, product, loading and what they import.
"""
