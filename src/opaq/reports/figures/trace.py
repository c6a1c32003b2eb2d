"""The course of a solve as a figure: what the solver gained, what it earned, what that cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opaq.reports.answer_data import reading, requirement, unit_of
from opaq.reports.figures.axes import Chart, LevelLine, Line, plot_charts
from opaq.reports.figures.style import Column
from opaq.reports.solution_text import solution_to_dict

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class SolveTrace:
    """The winning start, step by step."""

    of: str  # what is sought: opacity, unless the task says otherwise
    iterations: tuple[int, ...]
    scores: tuple[float, ...]
    slack: tuple[tuple[float, ...], ...]  # [step][requirement]
    multipliers: tuple[tuple[float, ...], ...]  # [step][requirement]
    requirements: tuple[tuple[str, float], ...]  # name, threshold; of those that ask for something
    estimated: bool = False  # whether scores are estimates from sampled runs

    @classmethod
    def of_answer(cls, answer: Mapping[str, Any]) -> SolveTrace:
        """From the keys of a solve's answer; InputError where they are not there."""
        with reading("the answer of a solve"):
            of, steps = str(answer["objective"]["of"]), answer["trace"]
            return cls(
                of=of,
                iterations=tuple(int(step["iteration"]) for step in steps),
                scores=tuple(float(step[of]) for step in steps),
                slack=tuple(_numbers(step["slack"]) for step in steps),
                multipliers=tuple(_numbers(step["multipliers"]) for step in steps),
                requirements=tuple(
                    requirement(each) for each in answer["requirements"] if each["threshold"] is not None
                ),
                estimated=answer.get("gradients") == "sampled",
            )

    def charts(self) -> list[Chart]:
        """The score, the requirements and the multipliers against the iteration."""
        of = f"{'estimated ' if self.estimated else ''}{self.of.replace('_', ' ')}"
        score = Chart("iteration", f"{of}{unit_of(self.of)}", [Line(of, self._against(self.scores))])
        named = len(self.requirements) == len(self.slack[0]) if self.slack else False
        if not self.slack or not self.slack[0]:
            return [score]
        names = [name for name, _ in self.requirements] if named else _count(len(self.slack[0]))
        return [score, self._earned(names) if named and len(names) == 1 else self._slacks(names), self._prices(names)]

    def _earned(self, names: Sequence[str]) -> Chart:
        """Of one requirement, the value itself beside its threshold."""
        (name, threshold), *_ = self.requirements
        values = [row[0] + threshold for row in self.slack]
        level = LevelLine(f"threshold: {threshold:g}", threshold)
        return Chart("iteration", name, [Line(name, self._against(values), colour=2)], [level])

    def _slacks(self, names: Sequence[str]) -> Chart:
        return Chart("iteration", "slack", self._lines(names, self.slack), [LevelLine("met from here on", 0.0)])

    def _prices(self, names: Sequence[str]) -> Chart:
        return Chart("iteration", "multiplier", self._lines(names, self.multipliers))

    def _lines(self, names: Sequence[str], rows: Sequence[Sequence[float]]) -> list[Line]:
        columns = zip(*rows, strict=True)
        return [
            Line(name, self._against(values), colour=(1 + index) % 6)
            for index, (name, values) in enumerate(zip(names, columns, strict=True))
        ]

    def _against(self, values: Sequence[float]) -> list[tuple[float, float]]:
        return list(zip(map(float, self.iterations), values, strict=True))


def plot_trace(solution: Any, *, column: Column = "single", title: str | None = None) -> Figure:
    """The course of the start that won: score, return and multipliers against the iteration, as a figure.

    The score is the solver's own, an estimate where gradients are sampled; the polish of its policy is not part of it.

    solution: a `Solution`, or the answer of `opaq solve` as a mapping, as its JSON holds it.
    column: how wide: "single" (3.4 in) or "double" (7 in).
    title: a line above the figure; none unless given.

    Raises InputError when the mapping is no such answer, or where matplotlib is not installed.
    """
    with reading("a Solution"):
        answer = solution if isinstance(solution, Mapping) else solution_to_dict(solution)
    return plot_charts(SolveTrace.of_answer(answer).charts(), column=column, title=title)


def _numbers(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _count(count: int) -> list[str]:
    return [f"requirement {number}" for number in range(1, count + 1)]
