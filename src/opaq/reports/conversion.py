"""Files from one format into another, by their endings."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opaq.errors import Fault, Faults, InputError
from opaq.files import write_text
from opaq.formats.dot import automaton_from_dot, automaton_to_dot, mdp_to_dot
from opaq.formats.hoa import automaton_from_hoa, automaton_to_hoa
from opaq.formats.umb.umb_reader import write_umb
from opaq.loading.policy_files import load_policy
from opaq.loading.scenarios import load_problem
from opaq.loading.sources import read_model
from opaq.model.automaton import Automaton
from opaq.model.imported import Imported
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.model.secret import Language
from opaq.product.compile import compile_problem
from opaq.reports.policy_export import chain_to_drn, policy_to_csv, policy_to_storm_scheduler, policy_to_table
from opaq.spec.policy_table import FORMAT as POLICY_FORMAT
from opaq.spec.problem_writer import automaton_to_dict, model_to_dict, observer_to_dict, problem_to_dict
from opaq.spec.yaml_reader import load_yaml, read_text

_MODELS = {
    ".umb": "umb",
    ".pomdp": "pomdp",
    ".prism": "prism",
    ".nm": "prism",
    ".pm": "prism",
    ".sm": "prism",
    ".jani": "jani",
    ".drn": "drn",
}
_DRAWN = {".hoa": automaton_from_hoa, ".dot": automaton_from_dot, ".gv": automaton_from_dot}
_PLAIN = (".yaml", ".yml", ".json")
_SCHEDULER = ".storm.json"

Source = Problem | Imported | Automaton | Policy
Writer = Callable[["_Job"], str]


@dataclass(slots=True)
class _Job:
    """One conversion: what was read, where it goes, and what its user should know."""

    source: Any
    target: Path
    problem: Problem | None
    overwrite: bool
    notes: list[str]


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    problem: Problem | None = None,
    constants: Mapping[str, bool | int | float] | None = None,
    overwrite: bool = False,
    faults: Faults | None = None,
) -> tuple[str, ...]:
    """Read a problem, model, automaton or policy and write it in the format that the ending of `target` names.

    A policy needs the `problem` it is for; `constants` are for PRISM and JANI models. Returns what is lost on the
    way, in sentences; warnings about the source go to `faults`. An existing target stays unless `overwrite`. Raises
    InputError when the two do not go together.
    """
    given = os.fspath(source)
    noted = Faults() if faults is None else faults
    found = _read(given, problem, constants or {}, noted)
    kind, writers = _writers(found)
    ending = _ending(os.fspath(target))
    if ending not in writers:
        raise InputError([Fault("", f"{kind} cannot become '{ending}'", f"it can become {', '.join(writers)}")], given)
    job = _Job(found, Path(target), problem, overwrite, [])
    text = writers[ending](job)
    if text:
        write_text(target, text, overwrite=overwrite)
    return tuple(job.notes)


def _ending(path: str) -> str:
    return _SCHEDULER if path.lower().endswith(_SCHEDULER) else os.path.splitext(path)[1].lower()


def _read(source: str, problem: Problem | None, constants: Mapping[str, Any], faults: Faults) -> Source:
    ending = _ending(source)
    if ending in _MODELS:
        kind = _MODELS[ending]
        imported = read_model(kind, source, {"constants": constants} if kind in ("prism", "jani") else {})
        faults.warnings.extend(imported.warnings)
        return imported
    if ending in _DRAWN:
        return _DRAWN[ending](read_text(source), source=source)
    if ending in _PLAIN and Path(source).is_file():
        data = load_yaml(source).data
        if isinstance(data, Mapping) and data.get("format") == POLICY_FORMAT:
            if problem is None:
                raise InputError([Fault("", "is a policy", "give the problem it is for with --problem")], source)
            return load_policy(source, problem, faults=faults)
    return load_problem(source, faults=faults)


def _writers(source: Source) -> tuple[str, dict[str, Writer]]:
    """What the source is called, and how each format it can have is written."""
    if isinstance(source, Problem):
        return "a problem", _plain(_problem) | {".umb": _problem_umb, ".dot": _drawing, ".hoa": _secret_hoa}
    if isinstance(source, Imported):
        return "a model", _plain(_model) | {".umb": _model_umb, ".dot": _drawing}
    if isinstance(source, Automaton):
        drawn: dict[str, Writer] = {
            ".hoa": lambda job: automaton_to_hoa(job.source),
            ".dot": lambda job: automaton_to_dot(job.source),
        }
        return "an automaton", drawn | _plain(lambda job: automaton_to_dict(job.source))
    return "a policy", {".csv": _csv, ".txt": _table, _SCHEDULER: _scheduler, ".drn": _chain}


def _plain(told: Callable[[_Job], dict[str, Any]]) -> dict[str, Writer]:
    """The same mapping as YAML and as JSON."""

    def as_yaml(job: _Job) -> str:
        import yaml

        return yaml.safe_dump(told(job), sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)

    def as_json(job: _Job) -> str:
        return json.dumps(told(job), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    return {".yaml": as_yaml, ".yml": as_yaml, ".json": as_json}


def _problem(job: _Job) -> dict[str, Any]:
    return problem_to_dict(job.source)


def _model(job: _Job) -> dict[str, Any]:
    """The parts of a problem file that a model has."""
    imported: Imported = job.source
    told: dict[str, Any] = {"opaq": 1, "model": model_to_dict(_rewarded(imported))}
    missing = ["secret", "horizon"]
    if imported.observer is None:
        missing.insert(0, "observer")
    else:
        told["observer"] = observer_to_dict(imported.observer, imported.mdp)
    if imported.discount is not None:
        told["discount"] = imported.discount
    job.notes.append(f"the model is no problem yet: add {', '.join(missing[:-1])} and {missing[-1]}")
    return told


def _rewarded(imported: Imported) -> MDP:
    return dataclasses.replace(imported.mdp, named_rewards=dict(imported.rewards))


def _problem_umb(job: _Job) -> str:
    problem: Problem = job.source
    rewards = {"reward": problem.mdp.rewards, **problem.mdp.named_rewards}
    job.notes.append("UMB holds the model and the observer; secret, horizon, task and policy class are left out")
    write_umb(
        job.target,
        problem.mdp,
        observer=_plain_observer(problem.observer, job),
        rewards=rewards,
        overwrite=job.overwrite,
    )
    return ""


def _model_umb(job: _Job) -> str:
    imported: Imported = job.source
    observer = None if imported.observer is None else _plain_observer(imported.observer, job)
    rewards = dict(imported.rewards) or None
    write_umb(
        job.target,
        imported.mdp,
        observer=observer,
        variables=imported.variables,
        rewards=rewards,
        overwrite=job.overwrite,
    )
    return ""


def _plain_observer(observer: Observer, job: _Job) -> Observer | None:
    if observer.after_action is None and observer.action_emission is None:
        return observer
    job.notes.append("the observer sees something of the actions, which UMB cannot hold: it is left out")
    return None


def _drawing(job: _Job) -> str:
    return mdp_to_dot(job.source.mdp)


def _secret_hoa(job: _Job) -> str:
    secret = job.source.secret
    if not isinstance(secret, Language):
        raise InputError([Fault("secret", "has no automaton", "only languages become HOA files")], job.source.name)
    job.notes.append("HOA holds the automaton of the secret and nothing else")
    return automaton_to_hoa(secret.automaton, name=job.source.name)


def _for(job: _Job) -> Problem:
    assert job.problem is not None  # a policy is not read without its problem
    return job.problem


def _csv(job: _Job) -> str:
    return policy_to_csv(job.source)


def _table(job: _Job) -> str:
    return policy_to_table(job.source)


def _scheduler(job: _Job) -> str:
    return policy_to_storm_scheduler(job.source, _for(job).mdp)


def _chain(job: _Job) -> str:
    product = compile_problem(_for(job), job.source.policy_class)
    return chain_to_drn(product, product.policy_vector(job.source))
