"""How a solve ended, in sentences for people."""

from __future__ import annotations

from enum import Enum

UNPROVEN = "not proven globally optimal"  # what a certificate can say more about


class Status(Enum):
    """The value is the sentence users read; a solution adds its figures."""

    CONVERGED = f"converged: no small change of the policy does better (a local optimum; {UNPROVEN})"
    COMPLETED = "completed, but not known to be an optimum: convergence is not tested"
    SETTLED = "stopped gaining: the search finds nothing better, but the policy is not a local optimum"
    STOPPED = "stopped at the iteration limit: more iterations may do better"
    EDGE = "meets the task, but no start of the search ended there: the policy was made for the task alone"
    INTERRUPTED = "interrupted: this is the best policy so far"
    TIME_LIMIT = "the time limit was reached: this is the best policy so far"
    INFEASIBLE = "infeasible: no policy at all meets the task"
    NOT_FOUND = "no policy found that meets the task, though the task is not proven infeasible"
