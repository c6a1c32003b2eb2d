"""Bounds of the paper's scenarios as they fall with time: a table, and docs/pictures/certificates.svg.

    python benchmarks/certificate_ladders.py                    # about six minutes on two cores
    python benchmarks/certificate_ladders.py graph --seconds 5

For every scenario a policy on (state, time) is solved for, with at most a third of the time, and certified with the
rest. The figures depend on the machine; what is printed says how long each took.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter

import opaq
from opaq.reports.figures.axes import Chart, LevelLine, Line, plot_charts

SCENARIOS = ("grid-last-state-4", "grid-last-state", "grid-initial-state-4", "grid-initial-state")
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "certificates.svg"


def climbed(name: str, *, seconds: float, gap: float) -> tuple[opaq.Certificate, list[tuple[float, float]], float]:
    """The certificate of a solved policy, the bounds with their times, and the time of the solve."""
    begun = perf_counter()
    solution = opaq.solve(name, conditions="state,time", time_limit=seconds / 3)
    solved = perf_counter() - begun
    points: list[tuple[float, float]] = []

    def note(rung: opaq.LadderRung) -> None:
        points.append((perf_counter() - begun, rung.bound))

    return opaq.certify(name, solution.policy, gap=gap, time_limit=seconds - solved, on_progress=note), points, solved


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=SCENARIOS)
    parser.add_argument("--seconds", type=float, default=60.0, help="for every scenario, its solve included")
    parser.add_argument("--gap", type=float, default=1e-3, help="where to stop")
    parser.add_argument("--draw", action="store_true", help="write the picture")
    options = parser.parse_args()
    charts = []
    print("| scenario | policy | bound | gap | solve s | all s | by |\n|---|---|---|---|---|---|---|")
    for name in options.names:
        certificate, points, solved = climbed(name, seconds=options.seconds, gap=options.gap)
        reached, share = certificate.reached.lower, 100 * certificate.relative_gap
        total = solved + certificate.seconds
        cells = (name, f"{reached:.5f}", f"{certificate.upper_bound:.5f}", f"{share:.2f}%", f"{solved:.0f}")
        print("|", " | ".join((*cells, f"{total:.0f}", certificate.machine)), "|", flush=True)
        levels = [LevelLine(f"policy found: {reached:.4f}", reached)]
        charts.append(Chart("seconds", "bits", [Line("proven bound", points, style="both")], levels, title=name))
    if options.draw:
        opaq.save_figure(plot_charts(charts, column="double"), PICTURE, overwrite=True)
        print(f"drawn: {PICTURE}")


if __name__ == "__main__":
    main()
