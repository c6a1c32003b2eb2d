"""What `opaq report` computes beside the measurement: a certificate and a comparison, in the time that is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opaq.certificates.certify import DEFAULT_TIME, Certificate, certify, check_certifiable
from opaq.cli.progress import ProgressPrinter, bound_progress
from opaq.errors import BudgetError
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.reports.answers import GivenAnswers
from opaq.solvers.compare import Comparison, compare
from opaq.stop import TIME_IS_UP, Deadline, Stop, StoppedError


@dataclass(slots=True)
class FurtherAnswers:
    """Answers that are asked for with a report; one that time or Ctrl-C leaves nothing of is left out."""

    problem: Problem
    policy: Policy | None
    deadline: Deadline  # of the report and all of these
    stop: Stop
    progress: ProgressPrinter
    left_out: list[str] = field(default_factory=list)  # what to say of those that are

    def wanted(self, *, certify: bool, compare: bool) -> list[str]:
        """Return the kinds to compute, in order; InputError now where there can be no certificate."""
        if certify:
            check_certifiable(self.problem)
        return [kind for kind, asked in {"certificate": certify, "comparison": compare}.items() if asked]

    def computed(self, kinds: Sequence[str]) -> GivenAnswers:
        """Return the answers of these kinds."""
        ways: Mapping[str, Callable[[float | None], Certificate | Comparison]] = {
            "certificate": self._certify,
            "comparison": self._compare,
        }
        answers: dict[str, Any] = {}
        for index, kind in enumerate(kinds):
            try:
                answers[kind] = self._within(ways[kind], self.deadline.share(1.0 / (len(kinds) - index)))
            except (StoppedError, BudgetError) as error:
                self.left_out.append(f"the {kind} is left out: {error}")
        return GivenAnswers(**answers)

    def _within(
        self, way: Callable[[float | None], Certificate | Comparison], seconds: float | None
    ) -> Certificate | Comparison:
        self.stop.check()
        if seconds == 0.0:
            raise StoppedError(TIME_IS_UP)
        return way(seconds)

    def _certify(self, seconds: float | None) -> Certificate:
        self.progress.show("", label="certifying")
        with self.stop.part() as stop:  # its time limit must not end what comes next
            time = DEFAULT_TIME if seconds is None else seconds
            return certify(
                self.problem, self.policy, time_limit=time, stop=stop, on_progress=bound_progress(self.progress)
            )

    def _compare(self, seconds: float | None) -> Comparison:
        self.progress.show("", label="comparing")
        with self.stop.part() as stop:
            return compare(
                self.problem,
                time_limit=seconds,
                stop=stop,
                on_rung=lambda rung: self.progress.show(f"{rung.name} done"),
            )
