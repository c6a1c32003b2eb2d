"""The bridge to Ray without Ray: an object with the few functions of the module that it calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from opaq.study.workers.executor import Ended
from opaq.study.workers.ray_bridge import Bridge
from opaq.study.workers.task import PointAnswer

TASK = {"problem": {}, "fingerprint": "", "folder": "", "options": {}, "certify": 0.0}
DONE = PointAnswer(answer={"status": "converged"})


class TaskError(Exception):
    pass


@dataclass(eq=False)
class Reference:
    value: Any = None
    come: bool = False


@dataclass(eq=False)
class Actor:
    references: list[Reference] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        def remote(*arguments: Any) -> Reference:
            self.references.append(Reference())
            return self.references[-1]

        return SimpleNamespace(remote=remote)

    def end(self, value: Any = None) -> None:
        self.references[-1].value, self.references[-1].come = value, True


class Ray:
    """A cluster of some cores, whose actors do what the test says."""

    exceptions = SimpleNamespace(RayTaskError=TaskError)

    def __init__(self, cores: int) -> None:
        self.cores, self.actors = cores, list[Actor]()

    def remote(self, **options: Any) -> Callable[[type], Any]:
        def make() -> Actor:
            self.actors.append(Actor())
            return self.actors[-1]

        return lambda worker: SimpleNamespace(remote=make)

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": float(self.cores)}

    def wait(self, references: list[Reference], **how: Any) -> tuple[list[Reference], list[Reference]]:
        return [one for one in references if one.come], [one for one in references if not one.come]

    def get(self, reference: Reference) -> Any:
        if isinstance(reference.value, Exception):
            raise reference.value
        return reference.value

    def kill(self, actor: Actor, **how: Any) -> None:
        actor.end(RuntimeError("killed"))


def bridge(cores: int, most: int = 0) -> tuple[Ray, Bridge, list[Mapping[str, Any]]]:
    ray, said = Ray(cores), list[Mapping[str, Any]]()
    made = Bridge(ray, said.append, most)
    made.pulse()
    return ray, made, said


def test_tasks_wait_for_actors_that_are_ready() -> None:
    ray, made, said = bridge(cores=3, most=2)
    assert said == [{"workers": 2}]
    made.take({"key": 7, "task": TASK, "limit": None})
    made.look()
    assert [len(actor.references) for actor in ray.actors] == [1, 1]  # they load
    ray.actors[1].end(True)
    made.look()
    made.look()
    assert [len(actor.references) for actor in ray.actors] == [1, 2]
    ray.actors[1].end(DONE)
    made.look()
    assert said[1:] == [{"ended": Ended(7, "answered", DONE)}]


def test_late_and_lost_actors_are_replaced() -> None:
    ray, made, said = bridge(cores=1)
    ray.actors[0].end(True)
    made.look()
    made.take({"key": 1, "task": TASK, "limit": -1.0})
    made.look()
    assert said[1:] == [{"ended": Ended(1, "late", explanation="it took longer than -1 s")}]
    made.pulse()
    assert len(ray.actors) == 2
    ray.actors[1].end(True)
    made.look()
    made.take({"key": 2, "task": TASK, "limit": None})
    made.look()
    ray.actors[1].end(RuntimeError("Traceback\nthe node died"))
    made.look()
    assert said[3:] == [{"ended": Ended(2, "lost", explanation="the node died")}]


def test_a_cluster_without_opaq_is_refused() -> None:
    ray, made, said = bridge(cores=1)
    ray.actors[0].end(TaskError("No module named 'opaq'"))
    made.look()
    assert said[1:] == [{"refused": "its workers cannot run opaq: No module named 'opaq'"}]
