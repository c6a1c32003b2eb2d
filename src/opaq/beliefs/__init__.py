"""Hidden process -> every belief the observer can hold, their value and its slope.

A hidden process and a policy table come in; a belief graph goes out. Imports: model, product.
"""
