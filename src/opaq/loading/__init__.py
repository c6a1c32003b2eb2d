"""Names of scenarios and of files -> problems and policies.

A name comes in, checked data go out. Imports: model, spec, formats.
"""

from opaq.loading import scenarios as scenarios  # opaq.scenarios
