"""Observers that assume: their filter as a machine that reads observations, and what it costs them to be wrong.

The filter of an observer that takes a policy and a model for granted passes through the beliefs q(x | o_0 .. o_t). They
are the nodes of a finite machine that reads observations; one more node stands for all that it holds impossible.
Followed in the product of the true process, its last node n gives

    cross-entropy = E[-log2 q(Z | n)],   guess error = P(argmax_z q(z | n) is wrong),   P(impossible),

expectations of what the last state pays: linear in the law of runs, exact without any belief graph. By Gibbs'
inequality the cross-entropy is at least the opacity H(Z | Y) of an observer who knows model and policy.

The same machine of a reference policy has -log2 q(o_t | o_0 .. o_t-1) to pay on the way; less the entropy of what is
seen that is the relative entropy D(P(Y) || P_reference(Y)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opaq.beliefs.returns import secret_distribution, start_distribution, transition_matrix
from opaq.errors import BudgetError, Fault, InputError
from opaq.model.arrays import FloatArray, IntArray, SparseRows
from opaq.model.conditions import MAX_BELIEFS, BeliefGraph
from opaq.model.figures import Assumption
from opaq.model.problem import Problem, Task
from opaq.model.secret import Trajectory
from opaq.opacity.policies import RETURN_OPTIMAL, as_policy
from opaq.product.compile import Product, compile_problem
from opaq.product.process import HiddenProcess, Payoff

EXCLUDED_BITS = 64.0  # that a value counts in tasks which the observer excluded, though what it saw was possible
_DIGITS = 1e13  # beliefs that agree to so many parts are one
_LARGEST_TABLE = 50_000_000  # nodes x observations


@dataclass(frozen=True, slots=True, eq=False)
class AssumedFilter:
    """The filter of an observer that assumes, as a machine; its last node is "impossible"."""

    graph: BeliefGraph
    posterior: FloatArray  # [node, value]: q(z | node), of the last node the prior
    values: tuple[str, ...]  # of the secret, as the assumed process has them
    bits: FloatArray  # [node]: -log2 q(o_t | o_0 .. o_t-1) of the observation that led there; 0 unless asked for

    @property
    def impossible(self) -> int:
        """The node of all that it holds impossible."""
        return len(self.graph.nodes) - 1


def assumed_filter(
    problem: Problem, assumption: Assumption, *, of: str, for_: str, bits: bool = False
) -> AssumedFilter:
    """Return the filter of an observer about a secret.

    problem: the true one. of, for_: the secret and the observer, by their names.
    bits: whether nodes tell apart how likely the observation was that led there.
    Raises BudgetError where it has too many beliefs, InputError where the policy does not fit.
    """
    mdp = problem.mdp if assumption.mdp is None else assumption.mdp
    assumed = replace(problem, mdp=mdp, task=Task(), assumptions={}).about(of=of, for_=for_)
    policy = RETURN_OPTIMAL if assumption.policy == "return_optimal" else assumption.policy
    chosen = as_policy(policy, assumed)
    product = compile_problem(assumed, chosen.policy_class)
    return build_filter(product, product.policy_vector(chosen), bits=bits)


def build_filter(product: Product, pi: FloatArray, *, bits: bool = False) -> AssumedFilter:
    """Return the filter of an observer who knows this product and this policy vector [slot], as a machine.

    Beliefs are told apart by their support and by two random projections, each rounded to 13 digits. Raises BudgetError
    where there are too many of them.
    """
    from scipy.sparse import csr_array, diags_array

    process, count = product.process, len(product.observations)
    moves = transition_matrix(process, process.flow(pi)).tocsr()
    emission = csr_array(
        (process.emission.values, process.emission.columns, process.emission.starts), shape=(process.num_states, count)
    ).tocsc()
    shown = [diags_array(emission[:, [seen]].toarray()[:, 0]) for seen in range(count)]
    keys = np.random.default_rng(0x0BAC).random((process.num_states, 2))
    known: dict[tuple[Any, ...], int] = {}
    rows, following, paid = list[Any](), list[IntArray](), list[float]()

    def enter(predicted: Any) -> IntArray:
        """Return [case, observation] -> node of every observation of predicted beliefs [case, state], or -1."""
        nodes = np.full((predicted.shape[0], count), -1, dtype=np.int64)
        for seen in range(count):
            after = (predicted @ shown[seen]).tocsr()
            after.eliminate_zeros()
            chance = np.asarray(after.sum(axis=1)).reshape(-1)
            for case in np.flatnonzero(chance > 0.0):
                first, last = after.indptr[case : case + 2]
                support, belief = after.indices[first:last], after.data[first:last] / chance[case]
                order = np.argsort(support)
                support, belief = support[order], belief[order]
                marks = np.rint(belief @ keys[support] * _DIGITS).astype(np.int64)
                cost = -math.log2(chance[case]) if bits else 0.0
                key = (support.tobytes(), *marks.tolist(), round(cost * _DIGITS))
                if key not in known:
                    known[key] = len(rows)
                    rows.append((support, belief))
                    paid.append(cost)
                nodes[case, seen] = known[key]
        if len(rows) > MAX_BELIEFS or len(rows) * count > _LARGEST_TABLE:
            raise BudgetError(f"an observer that assumes would hold more than {len(rows):,} beliefs, which is too many")
        return nodes

    first = enter(csr_array(start_distribution(process)[None, :]))[0]
    done = 0
    for _ in range(process.horizon):
        level, done = rows[done:], len(rows)
        if not level:
            break
        following.append(enter(_stack(level, process.num_states) @ moves))
    beliefs, nodes = _stack(rows, process.num_states), len(rows)
    table = np.full((nodes + 1, count), -1, dtype=np.int64)
    made = np.concatenate(following) if following else table[:0]
    table[: made.shape[0]] = made
    of_value = csr_array(
        (np.ones(process.num_states), (np.arange(process.num_states), process.secret)),
        shape=(process.num_states, process.num_secrets),
    )
    prior = secret_distribution(process, pi)
    graph = BeliefGraph(
        nodes=(*map(str, range(nodes)), "impossible"),
        observations=product.observations,
        first=np.where(first < 0, nodes, first),
        following=np.where(table < 0, nodes, table),
        otherwise=np.full(count, nodes),
    )
    posterior = np.vstack(((beliefs @ of_value).toarray(), prior))
    return AssumedFilter(graph, posterior, product.secret_values, np.array([*paid, 0.0]))


def _stack(rows: list[Any], num_states: int) -> Any:
    """Return beliefs as a sparse matrix [belief, state]."""
    from scipy.sparse import csr_array

    starts = np.concatenate(([0], np.cumsum([support.size for support, _ in rows], dtype=np.int64)))
    columns = np.concatenate([support for support, _ in rows]) if rows else np.zeros(0, dtype=np.int64)
    values = np.concatenate([belief for _, belief in rows]) if rows else np.zeros(0)
    return csr_array((values, columns, starts), shape=(len(rows), num_states))


@dataclass(frozen=True, slots=True, eq=False)
class Believer:
    """An observer that assumes, followed in the true process: what its last node pays."""

    process: HiddenProcess
    cross_entropy: Payoff  # values that it excluded count EXCLUDED_BITS
    guess_error: Payoff
    impossible: Payoff  # 1 where what it saw was impossible to it
    excluded: Payoff  # 1 where the secret has a value that it excluded: then the cross-entropy is infinite


def believer(product: Product, of: str, for_: str) -> Believer:
    """Return an observer that assumes, and a secret, in the process of a compiled problem; it is made once.

    of, for_: their names. Raises BudgetError where its filter has too many beliefs, InputError for a trajectory.
    """
    problem = product.problem
    if isinstance(problem.secrets[of], Trajectory):
        finding = f"the cross-entropy of a trajectory is not known, and the observer '{for_}' assumes"
        raise InputError([Fault(f"secrets.{of}", finding, "name another secret, or an observer without 'assumes'")])
    assumption = problem.assumptions[for_]
    found = product.extras.get((of, for_))
    if found is None:
        filter = assumed_filter(problem, assumption, of=of, for_=for_)
        found = product.extras[of, for_] = follow_filter(
            product.view(of, for_, assumed=filter.graph), filter, assumption
        )
    assert isinstance(found, Believer)
    return found


def follow_filter(view: Product, filter: AssumedFilter, assumption: Assumption) -> Believer:
    """Return what the last nodes of a filter pay in a product that follows it."""
    assert view.beliefs is not None
    process, node = view.process, view.beliefs
    column = {value: index for index, value in enumerate(filter.values)}
    own = np.array([column.get(value, -1) for value in view.secret_values])[process.secret]
    lost = node == filter.impossible
    belief = np.where(own < 0, 0.0, filter.posterior[node, own])
    excluded = (belief == 0.0) & ~lost
    surprise = math.log2(max(len(view.secret_values), 1)) if assumption.surprise is None else assumption.surprise
    bits = -np.log2(np.where(excluded | lost, 1.0, belief))
    bits = np.where(lost, surprise, np.where(excluded, EXCLUDED_BITS, bits)) + 0.0
    wrong = filter.posterior.argmax(axis=1)[node] != own
    finals = {"cross-entropy": bits, "guess error": wrong, "impossible": lost, "excluded": excluded}
    return Believer(process, *(final_payoff(process, name, worth) for name, worth in finals.items()))


def final_payoff(process: HiddenProcess, name: str, worth: Any) -> Payoff:
    """Return a payoff that the last state alone pays; worth: [state]."""
    nothing = SparseRows.from_entries([], [], [], shape=(process.num_states, process.num_slots))
    return Payoff(name, nothing, np.asarray(worth, dtype=np.float64), 1.0, None)
