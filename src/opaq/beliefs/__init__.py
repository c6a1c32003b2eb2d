"""The observer's beliefs: every distinct belief as a graph, its value and its slope, and payoffs of the chain.

Comes in: a `HiddenProcess` and a policy vector. Goes out: a belief graph, uncertainties with their derivatives by the
    policy vector, and expected payoffs. Imports: model, product (process only), errors, stop, kernel_cache.

For an observation sequence y the observer's belief is alpha_y(x) = P(y, x_t = x). With q_z = sum of alpha_y(x) over
z(x) = z, opacity is

    H(Z | Y) = sum over y of f(alpha_y),     f(alpha) = - sum over z of q_z log2(q_z / sum over z' of q_z').

f is positively homogeneous, f(c alpha) = c f(alpha), and its gradient does not depend on c. So sequences with
proportional beliefs have the same future: they share one node that carries their total mass. The tree of sequences
becomes a graph of distinct beliefs, level by level, and values and gradients stay exact.

Read in this order:

- graph: the data, and how kernels work.
- expansion: compiled, from one level to the next.
- unroll: all levels within a budget; what is dropped becomes a certified interval.
- leaves: the uncertainty after the last observation, and its slope by one sweep back.
- frozen: the same on a graph whose shape is kept while the policy changes, as solvers need it.
- levels: sums over all levels: the entropy of the outputs, secrets of the present.
- returns: expected payoffs and their gradients.
- evaluation: opacity, payoffs and visits of many policies on one frozen graph, a compiled call each.
- secret_prediction: P(Z | belief) before the end of the run.
"""
