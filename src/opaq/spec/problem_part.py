"""Read a whole problem from one mapping, with every fault in it; and write it back.

The mapping of a problem file comes in, a `model.Problem` goes out. The parts are read in the order in which they refer
to one another: the plant (`model`, `grid` or a model of another tool), horizon and discount, then observer, secret,
task and policy in the scope of what is known by then. A problem is written back in the explicit `model:` form.

    {"opaq": 1, "grid": {...}, "observer": {...}, "secret": {"visited": "goal"}, "horizon": 10}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from opaq.errors import Faults, check_types, describe_value
from opaq.model.figures import OBSERVER_NAME, SECRET_NAME, Assumption, CovertLimit, Pair
from opaq.model.mdp import MDP, Imported
from opaq.model.observer import resolve_observers
from opaq.model.policy import PolicyClass
from opaq.model.problem import MAX_HORIZON, Problem, Task, check_moments, check_uncertainty, discount_fault
from opaq.spec.cursor import Cursor, NameTable, Scope, Sources, read_with_faults
from opaq.spec.figure_part import ASSUMES, POLICY
from opaq.spec.grammar import NAME, TEXT, Fields, Key, Plain, Record, ValueType, choose_key, map_of, raw_value, whole
from opaq.spec.grid_part import GRID
from opaq.spec.imported_part import IMPORTED, IMPORTED_SHAPE, imported_plant, read_imported
from opaq.spec.model_part import MODEL, Plant
from opaq.spec.observer_part import ANY_OBSERVER
from opaq.spec.policy_part import ANY_POLICY
from opaq.spec.secret_part import ANY_SECRET, may_have_automaton
from opaq.spec.task_part import ANY_TASK

VERSION = 1


def build_problem(spec: Mapping[str, Any], *, sources: Sources | None = None, faults: Faults | None = None) -> Problem:
    """Build a problem from a mapping with the keys of a problem file.

    spec: the mapping; the values of model, observer, secret, task and policy may also be finished objects, the model
        also what `read_gymnasium` or `read_prism` returned.
    sources: reads the models and automata of other files that the mapping names; without it there may be none.
    faults: collects every fault instead of raising InputError; the problem is then None when it is unusable.
    """
    check_types({"sources": (sources, Sources, "an object that reads models and automata")}, optional=("sources",))
    start = Scope(sources=sources).cursor(spec, "")
    return read_with_faults(lambda cursor: problem_record().read(cursor), start, faults)


def problem_to_dict(problem: Problem) -> Plain:
    """Return the mapping of a problem file, in the explicit `model:` form.

    problem: the problem.
    """
    check_types({"problem": (problem, Problem, "an opaq.Problem")})
    names = Scope.of(problem.mdp, horizon=problem.horizon, discount=problem.discount)
    return {"opaq": VERSION, **problem_record().write(problem, names)}


def problem_record() -> Record[Problem]:
    """Return the keys of a problem file, with the kinds of models that are registered now."""
    foreign = tuple(
        Key(name, kind.key.shape, f"{kind.key.help} The same as model: {{{name}: ...}}.")
        for name, kind in IMPORTED.kinds.items()
    )
    models = ("model", "grid", *IMPORTED.kinds)
    needed = [("observer", "observers"), ("secret", "secrets")]
    either = [{"oneOf": [{"required": [name]} for name in names]} for names in needed]
    constraints = {"oneOf": [{"required": [name]} for name in models], "allOf": either}
    return Record("problem", _HELP, (*_KEYS, *foreign), _make, _parts, constraints=constraints)


def _make(fields: Fields) -> Problem | None:
    """Build the problem: first the plant, then the parts that refer to it, each in the scope of what is known by then.

    fields: the keys of a problem file. Returns None when there was any fault; all parts are read all the same.
    """
    errors = fields.cursor.faults.errors
    before = len(errors)
    _check_version(fields.at("opaq"), given="opaq" in fields)
    plant = _plant(fields)
    horizon, discount = fields.read("horizon"), _discount(fields, plant.scope)
    named = {kind: _named(fields, kind) for kind in ("observer", "secret")}
    scope = replace(
        plant.scope,
        horizon=horizon,
        discount=discount,
        has_automaton=any(may_have_automaton(cursor.value) for cursor in named["secret"].values())
        or not named["secret"],
        observers=NameTable.of("observer", tuple(named["observer"]) or None),
        secrets=NameTable.of("secret", tuple(named["secret"]) or None),
        assume=lambda cursor: _read_assumed(fields, cursor, plant.mdp),
    )
    observers, secrets = (  # None: unusable
        {name: fields.keys[kind].shape.read(cursor.within(scope)) for name, cursor in named[kind].items()}
        for kind in ("observer", "secret")
    )
    assumptions = _read_assumptions(named["observer"], scope)
    task, policy_class = (fields.read(name, scope) for name in ("task", "policy"))
    title = fields.read("name")
    fields.read("description")
    pair = Pair() if task is None or not task.pairs else task.pairs[0]
    of, for_ = pair.of or next(iter(secrets), ""), pair.for_ or next(iter(observers), "")
    observer, secret, faults = observers.get(for_), secrets.get(of), fields.cursor.faults
    resolve_observers(observers, faults, "observers")
    if task is not None:
        for name in {each.of or of: None for each in (*task.pairs, Pair(of))}:
            if (about := secrets.get(name)) is not None:
                check_uncertainty(task.of, about, faults, fields.at("task").child("of", None).path)
    if task is not None and secret is not None:
        check_moments(task, secret, faults, fields.at("task").path)
    arguments = (plant.mdp, observer, secret, horizon, discount, task, policy_class, title)
    usable = len(errors) == before and all(argument is not None for argument in arguments)
    if not usable:
        return None
    problem = Problem(*arguments, observers, secrets, of, for_, assumptions)  # type: ignore[arg-type]
    return _read_policies(fields, problem, named["observer"], scope)


def _named(fields: Fields, kind: str) -> dict[str, Cursor]:
    """Return name -> cursor of the observers, or the secrets: one under its own key, or several by their names.

    kind: "observer" or "secret". None, or both keys, are faults.
    """
    several = f"{kind}s"
    if kind in fields and several in fields:
        fields.at(several).error(f"does not go with '{kind}'", "keep one of them")
    if kind in fields:
        return {kind: fields.at(kind)}
    if several not in fields:
        if several not in fields.misspelled:
            fields.require(kind, _REQUIRED[kind])
        return {}
    entries = fields.at(several).entries()
    if entries is not None and not entries:
        fields.at(several).error("is empty", _REQUIRED[kind])
    return dict(entries or {})


def _read_assumptions(named: Mapping[str, Cursor], scope: Scope) -> dict[str, Assumption]:
    """Return observer -> what it assumes, of those that assume something; policies of files are not read yet."""
    stated = {name: _assumes(cursor.within(scope)) for name, cursor in named.items()}
    read = {name: ASSUMES.read(cursor) for name, cursor in stated.items() if cursor is not None}
    return {name: assumption for name, assumption in read.items() if assumption is not None}


def _assumes(cursor: Cursor) -> Cursor | None:
    """Return the cursor of what an observer assumes; None where it assumes nothing."""
    value = cursor.value
    stated = isinstance(value, Mapping) and "assumes" in value
    return cursor.child("assumes", value["assumes"]) if stated else None


def _read_assumed(fields: Fields, cursor: Cursor, true: MDP | None) -> MDP | None:
    """Return the model that an observer assumes: the stated one with some keys replaced; None after a fault.

    cursor: the keys that differ, or a finished model. true: the true model, whose states and actions it must have.
    """
    kind = next((name for name in ("model", "grid") if name in fields), "")
    stated, mdp = fields.at(kind or "model").value, cursor.value
    if not isinstance(mdp, MDP):
        if not isinstance(cursor.value, Mapping):
            return cursor.wrong("a mapping with the keys that differ")
        if not isinstance(stated, Mapping) or any(name in stated for name in IMPORTED.kinds):
            return cursor.error("only a model that is stated by its keys can be assumed to differ", "state `model`")
        merged = replace(cursor, value={**stated, **cursor.value}).within(Scope(sources=cursor.scope.sources))
        plant: Plant | None = fields.keys[kind].shape.read(merged)
        mdp = None if plant is None else plant.mdp
    assert isinstance(mdp, MDP | None)
    if mdp is not None and true is not None and (mdp.states != true.states or mdp.actions != true.actions):
        finding = "has other states or actions than the true model"
        return cursor.error(finding, "an assumed model has the same, with other probabilities")
    return mdp


def _read_policies(fields: Fields, problem: Problem, named: Mapping[str, Cursor], scope: Scope) -> Problem | None:
    """Return the problem with the policies that its observers and limits refer to; None after a fault.

    They are read for the problem that the other parts make, each in the assumed model.
    """
    before, assumptions = len(fields.cursor.faults.errors), dict(problem.assumptions)
    for name, assumption in assumptions.items():
        stated = _assumes(named[name])
        if stated is None or not isinstance(stated.value, Mapping) or "policy" not in stated.value:
            continue
        mdp = problem.mdp if assumption.mdp is None else assumption.mdp
        known = replace(scope, problem=replace(problem, mdp=mdp, assumptions={}))
        policy = POLICY.read(stated.child("policy", stated.value["policy"]).within(known))
        assumptions[name] = replace(assumption, policy=assumption.policy if policy is None else policy)
    task = problem.task
    if any(isinstance(limit, CovertLimit) for limit in task.limits) and not isinstance(fields.at("task").value, Task):
        silent = replace(fields.at("task").within(replace(scope, problem=problem)), faults=Faults())
        task = fields.keys["task"].shape.read(silent) or task
        fields.cursor.faults.errors += silent.faults.errors
    if len(fields.cursor.faults.errors) > before:
        return None
    return replace(problem, assumptions=assumptions, task=task) if assumptions or task is not problem.task else problem


def _check_version(cursor: Cursor, *, given: bool) -> None:
    """Note a version of the file format that is not read; a missing one is a warning.

    cursor: the value of `opaq`; given: whether the key is there.
    """
    if not given:
        cursor.warn("is missing", f"it was taken as {VERSION}, the version of the file format")
    elif cursor.value is True or cursor.value != VERSION:
        cursor.error(f"is {describe_value(cursor.value)}, a format this version does not read", f"write {VERSION}")


def _plant(fields: Fields) -> Plant:
    """Return the plant: `model`, `grid`, `model: {grid: ...}`, or a model of another tool.

    fields: the keys of a problem file, of which exactly one must name a model.
    After a fault the plant is empty: no model, and a scope in which nothing is known.
    """
    models = ("model", "grid", *IMPORTED.kinds)
    nothing = Plant(Scope(sources=fields.cursor.scope.sources), None)
    if not set(models) & {*fields.given, *fields.misspelled}:
        fields.at("model").error("is missing", "give a model or a grid")
        return nothing
    kind = choose_key(fields.cursor, fields.given, models, fields.misspelled)
    if kind is None:
        return nothing
    if kind in IMPORTED.kinds:
        mapping = {kind: fields.at(kind).value}
        alone = Cursor(mapping, fields.cursor.path, fields.cursor.faults, fields.cursor.scope)
        return read_imported(alone) or nothing
    read: Plant | None = fields.read(kind)
    return read or nothing


def _read_model(cursor: Cursor) -> Plant | None:
    """Return the plant of `model`: stated by names or arrays, a grid, a model of another tool, or a finished one.

    cursor: an opaq.MDP, an Imported, or a mapping whose keys tell which of the others it is. None after a fault.
    """
    value = cursor.value
    if isinstance(value, Imported):
        return imported_plant(value, cursor.scope.sources)
    if isinstance(value, MDP):
        return Plant(Scope.of(value, sources=cursor.scope.sources), value)
    own = {key.name for key in MODEL.keys}
    if isinstance(value, Mapping) and any(name in value for name in IMPORTED.kinds) and "transitions" not in value:
        return read_imported(cursor)
    if isinstance(value, Mapping) and "grid" in value and not own & set(value):
        return _GRID_ONLY.read(cursor)
    return MODEL.read(cursor)


def _discount(fields: Fields, scope: Scope) -> float | None:
    """Return the discount of the file, else that of an imported model, else 1; None after a fault.

    fields: the keys of a problem file; scope: has the imported model, if there is one.
    """
    imported = scope.imported
    if "discount" not in fields:
        return 1.0 if imported is None or imported.discount is None else imported.discount
    discount: float | None = fields.read("discount")
    return discount


def _read_discount(cursor: Cursor) -> float | None:
    """Return a discount above 0 and up to 1; None after noting anything else."""
    discount = cursor.number()
    fault = None if discount is None else discount_fault(discount)
    return discount if fault is None else cursor.error(fault)


def _parts(problem: Problem, scope: Scope) -> Plain:
    """Return the values of the keys, to be written."""
    own = {"model": "mdp", "policy": "policy_class"}
    keys = ["name", "model", "observer", "secret", "horizon", "discount", "task", "policy"]
    parts = {key: getattr(problem, own.get(key, key)) for key in keys}
    if (*problem.observers,) != (OBSERVER_NAME,) or problem.assumptions:
        stated = {
            name: ANY_OBSERVER.write(observer, scope) | _write_assumption(problem.assumptions.get(name), scope)
            for name, observer in problem.observers.items()
        }
        parts["observers"] = stated
        del parts["observer"]
    if (*problem.secrets,) != (SECRET_NAME,):
        parts["secrets"] = dict(problem.secrets)
        del parts["secret"]
    if not problem.task.pairs and (problem.of, problem.for_) != (
        next(iter(problem.secrets)),
        next(iter(problem.observers)),
    ):
        parts["task"] = replace(problem.task, pairs=(Pair(problem.of, problem.for_),))
    return parts


def _write_assumption(assumption: Assumption | None, scope: Scope) -> Plain:
    """Return the key of what an observer assumes, as a file states it; none where it assumes nothing."""
    if assumption is None:
        return {}
    parts = ASSUMES.write(replace(assumption, mdp=None), scope)
    return {"assumes": parts | ({} if assumption.mdp is None else {"model": MODEL.write(assumption.mdp, scope)})}


_HELP = "A Markov decision process, an observer, a secret and a task."
_GRID_ONLY: Record[Plant] = Record(
    "grid model", "A grid.", (Key("grid", GRID.shape, GRID.help),), lambda fields: fields.read("grid")
)
_MODEL: ValueType[Any] = ValueType(
    "a mapping: [model](#model), `{grid: ...}`, or [imported](#imported)",
    _read_model,
    (MODEL.shape, _GRID_ONLY.schema, IMPORTED_SHAPE),
    MODEL.write,
    inside=(MODEL.shape, IMPORTED_SHAPE),
)
_DISCOUNT: ValueType[float] = ValueType(
    "a number above 0 and up to 1", _read_discount, {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
)
_REQUIRED = {"observer": "say what the observer sees", "secret": "say what must stay hidden"}
_OBSERVERS = replace(map_of(ANY_OBSERVER, "name -> observer"), write=lambda observers, _: observers)
_KEYS = (
    Key("opaq", raw_value(f"`{VERSION}`", {"const": VERSION}), "The version of the format."),
    Key("name", NAME, "A short name; otherwise the file's name.", default=""),
    Key("description", TEXT, "What the problem is about."),
    Key("model", _MODEL, "The plant; exactly one of this, `grid` and the models of other tools is needed."),
    Key("grid", GRID.shape, "The plant as a grid."),
    Key("observer", ANY_OBSERVER, "What the eavesdropper sees; this or `observers` is needed."),
    Key("secret", ANY_SECRET, "What must stay hidden; this or `secrets` is needed."),
    Key("observers", _OBSERVERS, "Several observers by their names; policies may look at what the first one sees."),
    Key("secrets", map_of(ANY_SECRET, "name -> secret"), "Several secrets by their names."),
    Key(
        "horizon",
        whole(0, MAX_HORIZON),
        "How many transitions a run has; the observer sees one observation more.",
        required="say how many transitions a run has",
    ),
    Key("discount", _DISCOUNT, "The discount of the return.", default=1.0),
    Key("task", ANY_TASK, "What must get done.", default=Task()),
    Key("policy", ANY_POLICY, "What the policy may look at.", default=PolicyClass()),
)


def problem_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of a problem file: its shape and what every key means."""
    definitions: Plain = {}
    schema = problem_record().schema(definitions)
    title = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "opaq problem"}
    return title | schema | {"$defs": definitions}
