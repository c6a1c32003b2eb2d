"""A worker of the local executor: `python -m opaq.study.workers.worker PARENT`, one task at a time."""

from __future__ import annotations

import sys

from opaq.study.workers.process import ParentLink


def main() -> None:
    """Solve the points that the parent sends, until the parent ends.

    Its process id is the one argument of the command line. Of every task it is told when it begins, from which on its
    time limit counts, and then the answer.
    """
    link = ParentLink(int(sys.argv[1]))
    from opaq.study.workers.task import PointTask, prepare, run_task

    prepare()
    while True:
        message = link.messages.get()
        link.send({"begins": message["key"]})
        link.send({"key": message["key"], "answer": run_task(PointTask(**message["task"]))})


if __name__ == "__main__":
    main()
