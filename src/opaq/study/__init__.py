"""Many solves of one problem: sweeps over what is varied in it, fronts, and rankings of sensors.

A plan or a problem comes in; a journal with tables, a front or a ranking goes out. Imports: certificates and
what they import.
"""
