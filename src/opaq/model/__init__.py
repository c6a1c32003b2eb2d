"""What is stated, as plain immutable data: plant, observer, secret, task, policy, problem.

Nothing comes in but values checked elsewhere; everything else reads these types. Imports: nothing of opaq but errors.
"""
