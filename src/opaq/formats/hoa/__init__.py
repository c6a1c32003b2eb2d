"""HOA (Hanoi Omega-Automata): automata of other tools, read and written as automata on finite words."""
