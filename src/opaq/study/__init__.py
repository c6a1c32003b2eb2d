"""Many solves at once: sweeps over what is varied in a problem, fronts, and rankings of sensors.

A problem or a plan comes in; studies, fronts and rankings go out, a sweep's with a journal. Imports: certificates and
what they import.
"""
