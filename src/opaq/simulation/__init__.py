"""Runs of a policy: sampled, replayed with the observer's beliefs, or acted out step by step.

Comes in: a problem and a policy (or a compiled `Product` and a policy vector). Goes out: runs, beliefs along runs,
    actions. Imports: opacity and what it imports.

- sampling: runs of the hidden process as arrays, and gradients estimated from them.
- runs: sampled runs in the user's names (`opaq.simulate`).
- replay: what the observer believes along a run (`opaq.replay`), and runs drawn given observations.
- agent: a policy as something that acts, one step at a time (`opaq.Agent`, `opaq.GymAdapter`).
"""
