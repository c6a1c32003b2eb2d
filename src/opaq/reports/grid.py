"""Read grid problems and policies as boards of cells, and draw them with characters.

Comes in: a problem whose states are called (column,row) or have positions, and a compiled policy. Goes out: a
`GridView` and the `PolicyView` that all pictures are drawn from, and `Lines` for pages of text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opaq.beliefs.returns import start_distribution, transition_matrix
from opaq.errors import Fault, InputError, escape_invisible
from opaq.model.arrays import FloatArray, IntArray, SparseRows
from opaq.model.mdp import MDP
from opaq.model.observer import Observer, are_sensor_sets, quiet_observation, sensors_in
from opaq.model.problem import Problem
from opaq.product.compile import Product
from opaq.reports.layout import WIDTH, Lines, wrap_lines

Cell = tuple[int, int]  # column, row; row 0 on top

_MOST_CELLS = 250_000  # a board of more cells is no picture
_EQUAL = 1e-12  # chances this close are the same
_STEP = 1e-9  # an expected step shorter than this, in cells, is none
_UNITS = {"north": (0.0, -1.0), "east": (1.0, 0.0), "south": (0.0, 1.0), "west": (-1.0, 0.0)}


@dataclass(frozen=True, slots=True)
class GridView:
    """A board whose cells hold the states; cells without a state are walls.

    Several states may share a cell: the first of them stands for it in `traps`, `starts`, `labels` and `coverage`.
    """

    width: int
    height: int
    cells: tuple[Cell, ...]  # [state]
    first: IntArray  # [state] -> the first state with the same cell
    columns: tuple[float, ...]  # what a ruler writes at each column
    rows: tuple[float, ...]
    walls: tuple[Cell, ...]
    traps: tuple[int, ...]  # cells whose states no action leaves
    starts: Mapping[int, float]  # state -> probability
    labels: Mapping[str, tuple[int, ...]]  # label -> states
    coverage: Mapping[str, Mapping[int, float]]  # sensor or observation -> state -> how likely it is there

    @classmethod
    def of(cls, problem: Problem) -> GridView | None:
        """Return the problem as a board, or None where it is none.

        A problem is one where every state is called (column,row), or where its positions lie on the points of a board
        of which they fill a part worth drawing and whose moves mostly lead to neighbours. A board has at most 250,000
        cells.
        """
        mdp = problem.mdp
        board = _board_of_names(mdp) if mdp.positions is None else _board_of_positions(mdp)
        if board is None:
            return None
        at, columns, rows = board
        width, height = len(columns), len(rows)
        cells = tuple((column, row) for column, row in at.tolist())
        _, index, inverse = np.unique(at[:, 1] * width + at[:, 0], return_index=True, return_inverse=True)
        first = index[inverse.reshape(-1)]
        held, taken = np.bincount(first[list(traps(mdp))], minlength=first.size), set(cells)
        starts = np.bincount(first, weights=mdp.start, minlength=first.size)
        return cls(
            width=width,
            height=height,
            cells=cells,
            first=first,
            columns=columns,
            rows=rows,
            walls=tuple((x, y) for y in range(height) for x in range(width) if (x, y) not in taken),
            traps=tuple(np.flatnonzero((held > 0) & (held == np.bincount(first, minlength=first.size))).tolist()),
            starts={int(state): float(starts[state]) for state in np.flatnonzero(starts)},
            labels={label: tuple(np.unique(first[states]).tolist()) for label, states in mdp.labels.items()},
            coverage={name: _largest(first, chances) for name, chances in coverage(problem).items()},
        )


_Board = tuple[IntArray, tuple[float, ...], tuple[float, ...]]  # cells [state, 2], columns, rows


def _board_of_names(mdp: MDP) -> _Board | None:
    """Return the board of states that are called (column,row); at most 100 cells for every state.

    It ends where the states do on all four sides: a frame of walls around a map is not drawn.
    """
    cells = mdp.cells()
    if cells is None:
        return None
    least, most = cells.min(axis=0).tolist(), cells.max(axis=0).tolist()
    columns, rows = (tuple(range(first, last + 1)) for first, last in zip(least, most, strict=True))
    if len(columns) * len(rows) > min(_MOST_CELLS, 100 * len(cells)):
        return None
    return cells - least, columns, rows


def _board_of_positions(mdp: MDP) -> _Board | None:
    """Return the board of positions at the points of a grid, of which at least a quarter is taken.

    At least two in five of the moves from cell to cell must lead to one beside it: other models are graphs.
    """
    assert mdp.positions is not None
    across, along = (_ticks(mdp.positions[:, axis]) for axis in (0, 1))
    if across is None or along is None:
        return None
    (column, columns), (up, heights) = across, along
    cells = np.stack([column, len(heights) - 1 - up], axis=1)
    size, rows = len(columns) * len(heights), heights[::-1]
    if size > _MOST_CELLS or 4 * len(np.unique(cells, axis=0)) < size:
        return None
    source = mdp.choice_state()[mdp.transitions.row_of_entry()]
    steps = np.abs(cells[mdp.transitions.columns] - cells[source]).sum(axis=1)[mdp.transitions.values > 0]
    if np.count_nonzero(steps == 1) < 0.4 * np.count_nonzero(steps):
        return None
    return cells, columns, tuple(-y + 0.0 for y in rows) if rows[0] <= 0 else rows


def _ticks(values: FloatArray) -> tuple[IntArray, tuple[float, ...]] | None:
    """Return the tick of every value and all ticks, evenly spaced from the least value on; None where they are not.

    values: [state].
    """
    different = np.unique(values)
    if different.size == 1:
        return np.zeros(values.size, dtype=np.int64), (float(different[0]),)
    step = float(np.diff(different).min())
    count = (different - different[0]) / step
    if count[-1] > _MOST_CELLS or np.abs(count - np.rint(count)).max() > 1e-6:
        return None
    ticks = different[0] + step * np.arange(round(float(count[-1])) + 1)
    return np.rint((values - different[0]) / step).astype(np.int64), tuple(np.round(ticks, 9).tolist())


def _largest(first: IntArray, chances: Mapping[int, float]) -> dict[int, float]:
    """Return cell -> the largest of the chances of its states; first: [state] -> the state that stands for its cell."""
    largest: dict[int, float] = {}
    for state, chance in chances.items():
        cell = int(first[state])
        largest[cell] = max(chance, largest.get(cell, 0.0))
    return largest


Direction = tuple[float, float]  # right, down: a unit vector, or (0, 0) for staying put


def directions(mdp: MDP, view: GridView) -> list[Direction]:
    """Return where each action leads as a rule: [action] -> (right, down), a unit vector, or (0, 0) for staying put.

    It is the direction of the expected step, one of eight, that at least half of the choices that move have; where
    there is none, what the name of the action says.
    """
    cells = np.array(view.cells, dtype=np.float64)
    steps = mdp.transitions.scipy() @ cells - cells[mdp.choice_state()]
    moving = np.abs(steps).max(axis=1) > _STEP
    eighth = np.rint(np.arctan2(steps[:, 1], steps[:, 0]) / (np.pi / 4)).astype(np.int64) % 8
    towards: list[Direction] = []
    for action, name in enumerate(mdp.actions):
        counts = np.bincount(eighth[moving & (mdp.choice_action == action)], minlength=8)
        if 2 * counts.max() >= counts.sum() > 0:
            angle = float(counts.argmax()) * np.pi / 4
            towards.append((round(float(np.cos(angle)), 9) + 0.0, round(float(np.sin(angle)), 9) + 0.0))
        else:
            towards.append(_UNITS.get(direction_of(name), (0.0, 0.0)))
    return towards


def traps(mdp: MDP) -> tuple[int, ...]:
    """Return the states that no action leaves, in ascending order."""
    source = mdp.choice_state()[mdp.transitions.row_of_entry()]
    left = np.zeros(mdp.num_states, dtype=bool)
    left[source[(mdp.transitions.columns != source) & (mdp.transitions.values > 0)]] = True
    return tuple(np.flatnonzero(~left).tolist())


def has_stated_sensors(problem: Problem) -> bool:
    """Return whether the coverage is that of stated sensors, not one that is inferred from emissions."""
    return isinstance(problem.observer, Observer) and problem.observer.sensors is not None


def coverage(problem: Problem) -> dict[str, dict[int, float]]:
    """Return sensor -> state that it covers -> probability that it fires there, as the sensors are stated.

    Where only emissions are stated, a sensor covers where it fires more than at its least: than its false alarms. An
    observation that names several sensors, "A+B", counts for each of them. Observations that are no sets of sensors
    stand for themselves; one that every state can show tells nothing where most show it. Of an observer that is no
    table, nothing is known by state alone, and the mapping is empty.
    """
    observer = problem.observer
    if not isinstance(observer, Observer):
        return {}
    if observer.sensors is not None:
        return observer.sensors.coverage()
    names, visible = _by_sensor(observer)
    sensor, state, chance = visible.row_of_entry(), visible.columns, visible.values
    least = np.full(len(names), np.inf)
    np.minimum.at(least, sensor, chance)
    least[np.bincount(sensor, minlength=len(names)) < visible.num_columns] = 0.0
    by_sensor: dict[str, dict[int, float]] = {}
    for entry in np.flatnonzero(chance > least[sensor] + _EQUAL):
        by_sensor.setdefault(names[sensor[entry]], {})[int(state[entry])] = float(chance[entry])
    return by_sensor


def _by_sensor(observer: Observer) -> tuple[list[str], SparseRows]:
    """Return the sensors, and [sensor, state] the probability that each fires.

    Observations take the place of sensors where they are no sets of sensors. The quiet observation is left out where
    observations are sets, or where some observation can be shown by every state.
    """
    emission, sets = observer.emission, are_sensor_sets(observer)
    quiet = quiet_observation(observer)
    everywhere = np.bincount(emission.columns[emission.values > 0], minlength=1).max() == emission.num_rows
    left_out = quiet if sets or everywhere else None
    fired = [[] if name == left_out else sensors_in(name) if sets else [name] for name in observer.observations]
    names = list(dict.fromkeys(sensor for each in fired for sensor in each))
    index = {name: position for position, name in enumerate(names)}
    entries = [
        (index[sensor], state, chance)
        for state, seen, chance in zip(emission.row_of_entry(), emission.columns, emission.values, strict=True)
        for sensor in fired[seen]
    ]
    rows, columns, values = zip(*entries, strict=True) if entries else ((), (), ())
    shape = (len(names), emission.num_rows)
    table = SparseRows.from_entries(
        np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64), np.array(values), shape=shape
    )
    return names, table


Shares = Mapping[int, Mapping[int, float]]  # model state -> action of the model -> probability


@dataclass(frozen=True, slots=True, eq=False)
class PolicyView:
    """P(action | state) and P(action | state, time): what else the policy looks at is averaged out, as it occurs.

    product: the compiled problem. pi: the policy as a vector over the product's slots, one per row and action.
    States that cannot occur have no entry.
    """

    product: Product
    pi: FloatArray

    @property
    def changes_with_time(self) -> bool:
        """True where arrows can differ from one time to the next: the policy looks at more than the state."""
        return self.product.policy_class.conditions_on != ("state",)

    def average(self, group: IntArray | None = None) -> Shares:
        """Return P(action | state) over the whole run, every state weighted by when it is visited.

        group: [state] -> the state that stands for it and others, such as `GridView.first`; None keeps them apart.
        """
        return self._shares(self._visits(), group)

    def by_time(self, group: IntArray | None = None) -> Iterator[Shares]:
        """Yield P(action | state) for time 0 .. horizon, one after the other; group: as for `average`."""
        return (self._shares(occupied, group) for occupied in self._occupancy_by_time())

    def occupation(self) -> FloatArray:
        """Return [model state]: the expected number of visits in a run, the start included."""
        return self._of_model(self._visits())

    def occupation_by_time(self) -> Iterator[FloatArray]:
        """Yield [model state] -> P(s_t = state) for time 0 .. horizon, one after the other."""
        return (self._of_model(occupied) for occupied in self._occupancy_by_time())

    def _of_model(self, occupied: FloatArray) -> FloatArray:
        """Return weights [product state] summed over the states of the model."""
        size = self.product.problem.mdp.num_states
        return np.asarray(np.bincount(self.product.state_of, weights=occupied, minlength=size), dtype=np.float64)

    def _visits(self) -> FloatArray:
        """Return [product state]: the expected number of visits."""
        visits = np.zeros(self.product.process.num_states)
        for occupied in self._occupancy_by_time():
            visits += occupied
        return visits

    def _occupancy_by_time(self) -> Iterator[FloatArray]:
        """Yield P(x_t = x) over product states for t = 0 .. horizon."""
        process = self.product.process
        onward = transition_matrix(process, process.flow(self.pi)).T.tocsr()
        now = start_distribution(process)
        for _ in range(process.horizon):
            yield now
            now = onward @ now
        yield now

    def _shares(self, occupied: FloatArray, group: IntArray | None) -> Shares:
        """Return P(action | model state), averaged over product states in proportion to `occupied`.

        occupied: [product state], weights that need not sum to 1; states of weight 0 get no entry.
        group: as for `average`.
        """
        product, process = self.product, self.product.process
        states = np.flatnonzero(occupied > 0)
        rows = process.row[states]
        first, counts = process.row_start[rows], np.diff(process.row_start)[rows]
        owner = np.repeat(np.arange(states.size), counts)
        slots = np.repeat(first - np.concatenate(([0], np.cumsum(counts)[:-1])), counts) + np.arange(counts.sum())
        num_actions = len(product.problem.mdp.actions)
        of_model = product.state_of if group is None else group[product.state_of]
        pair = of_model[states][owner] * num_actions + self._action_of()[product.slot_action[slots]]
        pairs, index = np.unique(pair, return_inverse=True)
        mass = np.bincount(index.reshape(-1), weights=occupied[states][owner] * self.pi[slots])
        total = np.bincount(pairs // num_actions, weights=mass).tolist()
        shares: dict[int, dict[int, float]] = {}
        for key, weight in zip(pairs.tolist(), mass.tolist(), strict=True):
            state, action = divmod(key, num_actions)
            if weight > 0:
                shares.setdefault(state, {})[action] = min(1.0, weight / total[state])
        return shares

    def _action_of(self) -> IntArray:
        """Return the model's action of every action of a row: [action of a row].

        With a free memory, rows choose pairs (action, next node).
        """
        nodes = len(self.product.actions) // len(self.product.problem.mdp.actions)
        return np.arange(len(self.product.actions)) // nodes


_LEAST = 0.1  # an action less likely than this is not shown
_TIE = 1e-9  # shares this close are equal
_CELL_WIDTH = 4  # columns of a cell at least: initial, two symbols, a gap
_WALL = " ##"
_MOST_ROWS = 200
_DIRECTION = {
    name: direction
    for direction, names in {
        "north": ("n", "north", "up"),
        "east": ("e", "east", "right"),
        "south": ("s", "south", "down"),
        "west": ("w", "west", "left"),
        "stay": ("stay", "wait", "noop"),
    }.items()
    for name in names
}


def direction_of(action: str) -> str:
    """Return where an action of this name leads: north, east, south, west or stay; empty for other names."""
    return _DIRECTION.get(action.lower(), "")


@dataclass(frozen=True, slots=True)
class Symbols:
    """The characters for directions: north, east, south, west and stay -> one character each."""

    arrows: Mapping[str, str]

    def of(self, action: str) -> str:
        """Return one character for an action: an arrow for one that moves, else its initial ("?" for an empty name)."""
        return self.arrows.get(direction_of(action), escape_invisible(action)[:1] or "?")

    @classmethod
    def for_encoding(cls, encoding: str | None) -> Symbols:
        """Return arrows if the encoding has them, else ASCII signs; None and unknown encodings count as ASCII."""
        try:
            "".join(UNICODE.arrows.values()).encode(encoding or "ascii")
        except (UnicodeEncodeError, LookupError):
            return ASCII
        return UNICODE


UNICODE = Symbols({"north": "↑", "east": "→", "south": "↓", "west": "←", "stay": "·"})
ASCII = Symbols({"north": "^", "east": ">", "south": "v", "west": "<", "stay": "."})


def grid_of(problem: Problem) -> GridView:
    """Return the problem as a grid. Raises InputError if it is none."""
    view = GridView.of(problem)
    if view is None:
        raise InputError(
            [
                Fault(
                    "model",
                    "is no grid: its states are not cells called (column,row), and no positions say where they are",
                    "give it positions, or ask for no picture of a grid",
                )
            ]
        )
    return view


def policy_lines(
    policy: PolicyView, *, time: int | None = None, symbols: Symbols = UNICODE, width: int = WIDTH
) -> Lines:
    """Return the likely actions of every cell as lines of text, with a legend below.

    policy: the compiled policy; its problem must be a grid.
    time: the time that is shown, 0 to the horizon; None averages over the run.
    symbols: the characters for actions.
    width: columns; what does not fit is cut, and a line says so.

    Raises InputError if the problem is no grid, or has no such time.
    """
    problem = policy.product.problem
    view = grid_of(problem)
    shares = policy.average(view.first) if time is None else _at(policy, time, view.first)
    labels, traps = initials(view), {*view.traps}
    texts = {
        state: labels.get(state, " ")
        + ("x" if state in traps else _likely(shares.get(state, {}), problem.mdp.actions, symbols))
        for state in range(len(view.cells))
    }
    averaged = ", averaged over the run" if policy.changes_with_time else ""
    title = f"likeliest actions{averaged}" if time is None else f"likeliest actions at time {time}"
    return Lines((*_board(view, texts, width), *_wrap_legend(_legend(view, symbols), width)), title)


def _legend(view: GridView, symbols: Symbols) -> list[str]:
    """Return the lines that explain the characters and name the labels that occur."""
    likeliest, second = symbols.of("E"), symbols.of("S")
    labels = ", ".join(
        f"{_initial(label)} {escape_invisible(label)}" for label, states in view.labels.items() if states
    )
    return [
        f"{' '.join(symbols.arrows.values())} north east south west stay; ## wall; x no action leaves it; "
        "blank: not visited",
        f"{likeliest}{second} the likeliest and the next; {likeliest}+ the likeliest of three or more; "
        "* three or more, equally likely",
        *([f"labels: {labels}"] if labels else []),
    ]


def path_lines(view: GridView, states: Sequence[int], *, title: str, width: int = WIDTH) -> Lines:
    """Return a run on the grid: every visited cell shows when it was first entered, and + if it was entered again.

    view: the grid. states: the states from time 0 on.
    title: the line above. width: columns.
    """
    visits: dict[int, list[int]] = {}
    before = None
    for time, cell in enumerate(view.first[list(states)].tolist()):
        if cell != before:
            visits.setdefault(cell, []).append(time)
        before = cell

    texts = dict.fromkeys(range(len(view.cells)), " .")
    texts |= {state: f"{times[0]:>2}{'+' if len(times) > 1 else ''}" for state, times in visits.items()}
    legend = ["numbers: the time a cell is entered first, + again later; . not visited; ## wall"]
    return Lines((*_board(view, texts, width), *_wrap_legend(legend, width)), title)


def _at(policy: PolicyView, time: int, group: IntArray) -> Shares:
    """Return the shares of one time by cell. Raises InputError where the time is not from 0 to the horizon."""
    for now, shares in enumerate(policy.by_time(group)):
        if now == time:
            return shares
    horizon = policy.product.process.horizon
    raise InputError([Fault("time", f"is {time}", f"give a time from 0 to the horizon, {horizon}")])


def _likely(shares: Mapping[int, float], actions: Sequence[str], symbols: Symbols) -> str:
    """Return the symbols of a cell: the likeliest action, then the next or "+" for several.

    shares: action -> probability; actions below 0.1 are not shown, and without any the text is empty. "*" stands for
    three or more that tie.
    """
    ranked = sorted(((share, -action) for action, share in shares.items() if share >= _LEAST), reverse=True)
    if not ranked:
        return ""
    if len(ranked) > 2 and ranked[0][0] - ranked[-1][0] < _TIE:
        return "*"
    first, *others = (symbols.of(actions[-action]) for _, action in ranked)
    return first + ("+" if len(others) > 1 else "".join(others))


def _board(view: GridView, texts: Mapping[int, str], width: int) -> list[str]:
    """Return the cells row by row under a head of column numbers, as the view's rulers have them.

    texts: state -> text of its cell. Columns that do not fit `width`, and rows from the 200th on, are left out, which a
    line below says.
    """
    text_at = {view.cells[state]: texts[state] for state in view.first.tolist()}
    across, along = [f"{at:g}" for at in view.columns], [f"{at:g}" for at in view.rows]
    size = max(_CELL_WIDTH, *(len(text) + 1 for text in (*texts.values(), *across)))
    margin = max(map(len, along)) + 1
    columns = range(min(view.width, max((width - margin) // size, 1)))
    rows = range(min(view.height, _MOST_ROWS))
    lines = [" " * margin + "".join(f"{across[column]:>{_CELL_WIDTH - 2}}".ljust(size) for column in columns).rstrip()]
    for row in rows:
        cells = "".join(text_at.get((column, row), _WALL).ljust(size) for column in columns)
        lines.append(f"{along[row]:>{margin - 1}} {cells}".rstrip())
    if len(columns) < view.width:
        lines += wrap_lines(f"columns {across[len(columns)]} to {across[-1]} do not fit the page", width=width)
    if len(rows) < view.height:
        lines += wrap_lines(f"rows {along[len(rows)]} to {along[-1]} are left out", width=width)
    return lines


def seldom_labels(view: GridView) -> list[str]:
    """Return the labels that are marked: those that some cells carry and, of 9 cells or more, not most of them."""
    count = len(set(view.cells))
    return [label for label, states in view.labels.items() if states and (count < 9 or 2 * len(states) <= count)]


def initials(view: GridView) -> dict[int, str]:
    """Return state -> one letter for its label; states with several labels show the one that fewest states carry."""
    initials: dict[int, str] = {}
    for label, states in sorted(view.labels.items(), key=lambda item: -len(item[1])):
        for state in states:
            initials[state] = _initial(label)
    return initials


def _initial(label: str) -> str:
    """Return the first character of a label, "?" where it is a space or no ASCII."""
    letter = escape_invisible(label)[:1] or "?"
    return letter if letter.isascii() and letter != " " else "?"


def _wrap_legend(legend: Sequence[str], width: int) -> list[str]:
    """Return the legend wrapped to the width and indented by two columns."""
    return [line for text in legend for line in wrap_lines(text, first="  ", rest="  ", width=width)]
