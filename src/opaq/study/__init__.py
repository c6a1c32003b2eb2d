"""Many problems at once: the experiments of the paper, and sweeps over what is varied in a problem.

A name or a plan comes in; tables, pictures and a journal of results go out. Imports: certificates, reports and what
they import.
"""
