"""Compile model x machines into one hidden process over the reachable product states, and translate back.

Comes in: a `Problem` and a `PolicyClass`. Goes out: a `Product`, which holds a `HiddenProcess` (numbers only) and the
    names its numbers stand for. Imports: model, automata, spec.

A secret Z is any function of the run s_0 .. s_T that a finite machine reading the run can compute: q_0 = d(s_0),
q_{t+1} = d(q_t, s_t, a_t, s_{t+1}), Z = w(q_T, s_T). Observers who see actions, policies that remember, and
requirements such as "reach a goal" are machines of the same kind, so that one mechanism serves all: x = (s, q, n, m_1,
m_2, ...) is the model's state beside the nodes of all machines, and is Markov.

Read in this order:

- machine: the interface of machines, and those that opaq has.
- trackers: which machine follows which secret, observer, condition or requirement, and what its nodes mean. A new kind
  is one function registered there.
- explore: the product states that can be reached, breadth first.
- process: the hidden process that all mathematics runs on.
- compile: the whole way from a problem to a process, and from policy vectors back to policies in the user's names.
"""
