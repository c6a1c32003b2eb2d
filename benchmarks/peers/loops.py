"""Peer: the paper's estimator as it reads (section III.C), one run at a time in Python, NumPy for each operator.

Every run keeps the forward message alpha_t and its gradient by all |S||A| parameters, pushed forward together by
eq. update_gradient_forward_path_probability; eq. HMM_approx_gradient_entropy averages over runs. The score term uses
the natural logarithm: d P / P.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.peers.paper_grid import Scenario, softmax


@dataclass(frozen=True, slots=True)
class Operators:
    """One observable operator for each observation, and its gradient."""

    steps: np.ndarray  # [observation, next state, state]
    gradients: np.ndarray  # [observation, next state, state, parameter]


def sampled_gradient(
    scenario: Scenario, theta: np.ndarray, *, samples: int, rng: np.random.Generator
) -> tuple[float, np.ndarray]:
    """The estimate of opacity in bits and of its gradient [state, action] from fresh runs."""
    return gradient(scenario, theta, sample_runs(scenario, theta, samples=samples, rng=rng))


def gradient(scenario: Scenario, theta: np.ndarray, observations: np.ndarray) -> tuple[float, np.ndarray]:
    """The same from given sequences [sample, time]."""
    operators = observable_operators(scenario, theta)
    value, total = 0.0, np.zeros(theta.size)
    for sequence in observations:
        entropy, direction = _of_one_run(scenario, operators, sequence)
        value += entropy
        total += direction
    return value / len(observations), total.reshape(theta.shape) / len(observations)


def sample_runs(scenario: Scenario, theta: np.ndarray, *, samples: int, rng: np.random.Generator) -> np.ndarray:
    """Observation sequences [sample, time], a state, an action and an observation at a time."""
    policy = softmax(theta)
    start = scenario.start.sum(axis=0)
    states, actions, shown = (np.arange(n) for n in (len(start), scenario.num_actions, scenario.num_observations))
    runs = []
    for _ in range(samples):
        state = rng.choice(states, p=start)
        run = [rng.choice(shown, p=scenario.emission[state])]
        for _ in range(scenario.horizon):
            action = rng.choice(actions, p=policy[state])
            state = rng.choice(states, p=scenario.transitions[state, action])
            run.append(rng.choice(shown, p=scenario.emission[state]))
        runs.append(run)
    return np.array(runs)


def observable_operators(scenario: Scenario, theta: np.ndarray) -> Operators:
    """A_o[j, i] = b_j(o) P(i, j), and its gradient by eq. grad_P_i_j_calculation."""
    policy = softmax(theta)
    chain = np.einsum("ia,iaj->ij", policy, scenario.transitions)
    slopes = policy[:, :, None] * (np.eye(theta.shape[1]) - policy[:, None, :])  # [state, action, parameter]
    local = np.einsum("iap,iaj->ijp", slopes, scenario.transitions)
    chain_gradient = np.zeros((*chain.shape, *theta.shape))
    for state in range(scenario.num_states):
        chain_gradient[state, :, state, :] = local[state]
    chain_gradient = chain_gradient.reshape(*chain.shape, theta.size).transpose(1, 0, 2)
    shows = scenario.emission.T
    return Operators(shows[:, :, None] * chain.T, np.ascontiguousarray(shows[:, :, None, None] * chain_gradient))


def _of_one_run(scenario: Scenario, operators: Operators, sequence: np.ndarray) -> tuple[float, np.ndarray]:
    """H(Z | y) of one sequence and its summand of eq. HMM_approx_gradient_entropy."""
    joint = np.zeros(len(scenario.readout))
    joint_gradient = np.zeros((len(joint), operators.gradients.shape[-1]))
    for track, start in enumerate(scenario.start):
        alpha = start * scenario.emission[:, sequence[0]]
        alpha_gradient = np.zeros((len(alpha), joint_gradient.shape[1]))
        for shown in sequence[1:]:
            step = operators.steps[shown]
            alpha_gradient = step @ alpha_gradient + np.einsum("jip,i->jp", operators.gradients[shown], alpha)
            alpha = step @ alpha
        for value, chosen in enumerate(scenario.readout[:, track]):
            joint[value] += chosen @ alpha
            joint_gradient[value] += chosen @ alpha_gradient
    return _summand(joint, joint_gradient)


def _summand(joint: np.ndarray, joint_gradient: np.ndarray) -> tuple[float, np.ndarray]:
    probability = joint.sum()
    score = joint_gradient.sum(axis=0) / probability
    entropy, direction = 0.0, np.zeros(len(score))
    for value in np.flatnonzero(joint):
        posterior = joint[value] / probability
        posterior_gradient = joint_gradient[value] / probability - posterior * score
        bits = np.log2(posterior)
        entropy -= posterior * bits
        direction -= bits * posterior_gradient + posterior * bits * score + posterior_gradient / np.log(2)
    return entropy, direction


def enumerated(scenario: Scenario, theta: np.ndarray) -> float:
    """Opacity by every observation sequence there is: for small horizons only."""
    steps = observable_operators(scenario, theta).steps
    alphas = scenario.start * scenario.emission.T[:, None, :]  # [sequence, track, state]
    for _ in range(scenario.horizon):
        alphas = np.einsum("oji,yki->oykj", steps, alphas).reshape(-1, *scenario.start.shape)
    joint = np.einsum("zkj,ykj->yz", scenario.readout, alphas)
    total = joint.sum(axis=1, keepdims=True)
    ratio = np.divide(joint, total, out=np.ones_like(joint), where=joint > 0)
    return -float((joint * np.log2(ratio)).sum())
