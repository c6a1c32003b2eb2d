"""Hard use at random: extreme probabilities, random solves, damaged files, interrupts. Scripts and tests share it."""
