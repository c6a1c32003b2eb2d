"""Hard use at random (`python -m tests.stress`): extreme models, random solves, damaged files, interrupts."""
