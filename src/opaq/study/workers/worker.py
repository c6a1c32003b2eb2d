"""A worker of the local executor: `python -m opaq.study.workers.worker PARENT`, one task at a time."""

from __future__ import annotations

import sys
from time import time

from opaq.study.workers.process import ParentLink


def main() -> None:
    """Do what comes, until the parent ends."""
    link = ParentLink(int(sys.argv[1]))
    from opaq.study.workers.tasks import prepare, run_task

    prepare()
    link.send({"ready": True})
    while True:
        message = link.messages.get()
        link.send({"begun": message["key"], "at": time()})
        link.send({"key": message["key"], "answer": run_task(message["task"])})


if __name__ == "__main__":
    main()
