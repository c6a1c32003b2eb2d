"""Write numbers, amounts and units as people read them: the one place that rounds for display.

Comes in: floats and `Amount`s. Goes out: strings; bounds are rounded so that what is read still holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from opaq.model.uncertainty import UNCERTAINTIES, Uncertainty
from opaq.opacity.amount import Amount

NOISE = 1e-12  # probabilities and bits below this are rounding errors
TRIVIAL = "the trivial bound: it holds even for an observer who sees nothing"
TRIVIAL_LOWER = "the trivial bound: a secret that is known has no less"
_SINGULAR = {"bits": "bit", "guesses": "guess"}
_VANISHING = 5e-7  # on a page, smaller figures are shown as 0
_OPTIMAL = 1e-3  # a policy this close to a bound is called optimal to within that


def number(value: float, digits: int = 6, *, beside: float | None = None) -> str:
    """Return a number as text; what is below 1e-12 in size is a rounding error and is shown as 0.

    digits: significant digits, 6 unless given.
    beside: a number that it is compared with, such as a threshold: of a small one, 1e-12 of its size is the limit.
    """
    return f"{value:.{digits}g}" if abs(value) >= NOISE * min(1.0, abs(beside or 1.0)) else "0"


def with_unit(words: str, unit: str) -> str:
    """Return a figure and its unit; unit: in the plural, made singular where the figure is "1"."""
    return f"{words} {_SINGULAR.get(unit, unit) if words == '1' else unit}"


def round_up(value: float, digits: int = 4) -> str:
    """Return a number rounded up, so that what is read is still an upper bound.

    digits: after the point, 4 unless given. What is not finite is written as Python does.
    """
    if not math.isfinite(value):
        return str(value)
    return f"{math.ceil(value * 10**digits - 1e-9) / 10**digits:.{digits}f}"


def round_down(value: float, digits: int = 4) -> str:
    """Return a number rounded down, so that what is read is still reached.

    digits: after the point, 4 unless given. What is not finite is written as Python does.
    """
    if not math.isfinite(value):
        return str(value)
    return f"{math.floor(value * 10**digits + 1e-9) / 10**digits:.{digits}f}"


def shared_number(lower: float, upper: float, write: Callable[[float], str]) -> str | None:
    """Return the one number that both ends of an interval round to; None where they are read as two numbers.

    lower, upper: the ends. write: turns an end into the text that is shown, such as `number`.
    An interval narrower than the digits shown is one number, wherever people read it; JSON keeps both ends.
    """
    text = write(lower)
    return text if text == write(upper) else None


def amount_words(amount: Amount) -> str:
    """Return an amount with its interval or its standard error, as a fact of its own, without its unit."""
    if amount.method == "exact":
        return number(amount.value)
    if known := shared_number(amount.lower, amount.upper, number):
        return known
    interval = f"[{number(amount.lower)}, {number(amount.upper)}]"
    if amount.standard_error is None:
        return f"{interval} certified"
    estimate = f"{number(amount.value)} ± {amount.standard_error:.2g}"
    return f"{estimate} (standard error; the true value is certainly in {interval})"


def amount_phrase(amount: Amount) -> str:
    """Return an amount for a sentence, in four digits: its value, "about" an estimate, or "between" two ends."""
    if known := shared_number(amount.lower, amount.upper, lambda end: number(end, 4)):
        return known
    if amount.standard_error is not None:
        return f"about {number(amount.value, 4)} (± {amount.standard_error:.1g})"
    return f"between {number(amount.lower, 4)} and {number(amount.upper, 4)}"


def amount_cell(amount: Amount, *, sign: str = "") -> str:
    """Return an amount as the cell of a table; sign: "+" for differences, which have a sign in any case."""
    if amount.method == "exact":
        return f"{amount.value:{sign}.5f}"
    if known := shared_number(amount.lower, amount.upper, lambda end: f"{end:{sign}z.4f}"):
        return known
    if amount.standard_error is not None:
        return f"{amount.value:{sign}.4f} ± {amount.standard_error:.2g}"
    return f"[{amount.lower:{sign}.4f}, {amount.upper:{sign}.4f}]"


def bound_cell(bound: float | None, *, trivial: bool = False, minimise: bool = False) -> str:
    """Return a bound as the cell of a table; empty where there is none.

    trivial: True adds that the bound follows from the number of secret values alone. minimise: it is a lower one.
    """
    if bound is None:
        return ""
    return (
        f"{f'>= {round_down(bound, 5)}' if minimise else f'<= {round_up(bound, 5)}'}{' (trivial)' if trivial else ''}"
    )


def bound_words(bound: float, *, unit: str = "", minimise: bool = False) -> str:
    """Return what a bound says of a policy: "exceeds 1.0000 bits" or, of a lower one, "gets below 0.2000 bits".

    unit: with a space before it, or empty.
    """
    return f"gets below {round_down(bound)}{unit}" if minimise else f"exceeds {round_up(bound)}{unit}"


def trivial_words(*, minimise: bool) -> str:
    """Return what is said of a bound that needs no search; minimise: of a lower one."""
    return TRIVIAL_LOWER if minimise else TRIVIAL


def drawn_amount(amount: Amount, *, minimise: bool = False) -> tuple[float, float, float]:
    """Return (value at the mark, lower end of the bar, upper end of the bar) for drawing an amount.

    An estimate has one standard error to each side; of an interval the end is marked that is proven to be reached: the
    lower one, or the upper one where the amount is to be small (`minimise`).
    """
    value, error = amount.value, amount.standard_error
    if error is not None:
        return value, value - error, value + error
    reached = amount.upper if minimise else amount.lower
    return reached if amount.method == "interval" else value, amount.lower, amount.upper


def gap_words(
    reached: Amount, bound: float, *, unit: str = "", subject: str = "this one", minimise: bool = False
) -> str:
    """Return how far a policy is from a bound at most, from the least that it is proven to reach.

    reached: the amount of the policy; its lower end is named where it is not exact, or its upper one of a lower bound.
    bound: a bound on the same amount. unit: with a space before it, or empty. subject: the policy, in words.
    minimise: it is a lower bound.
    Empty where it says nothing: nothing was reached for certain of a positive bound, or all of it up to 1e-3.
    """
    if minimise:
        gap = reached.upper - bound
        most = "" if reached.method == "exact" else f" proven to have {round_up(reached.upper)} at most,"
        return "" if gap <= _OPTIMAL else f"{subject} is{most} at most {round_up(gap)}{unit} above the bound"
    gap = bound - reached.lower
    if gap <= _OPTIMAL:
        return ""
    known = f"{subject} is"
    if reached.method != "exact":
        known += f" proven to reach {round_down(reached.lower)},"
    share = share_below(reached.lower, bound)
    if bound <= 0:
        size = 10.0 ** (math.floor(math.log10(gap)) - 1)
        return f"{known} at most {math.ceil(gap / size - 1e-9) * size:.2g}{unit} below the bound"
    return f"{known} at most {share} below the bound" if share else ""


def share_below(reached: float, bound: float) -> str:
    """Return the share of a bound that is missing, rounded up: "53%".

    Empty where it says nothing: the bound is not positive or is reached, or all of it is missing.
    """
    if bound <= 0 or reached >= bound:
        return ""
    missing = 100 * min(1.0, (bound - reached) / bound)
    percent = math.ceil(missing - 1e-9) if missing >= 10 else math.ceil(10 * missing - 1e-9) / 10
    return f"{percent:g}%" if percent < 100 else ""


def page_number(value: float, digits: int = 3) -> str:
    """Return a number for an HTML page, with signs and powers of ten as people write them.

    digits: after the point, 3 unless given; a smaller number is written as a power of ten, one below 5e-7 as 0.
    """
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) < _VANISHING:
        return "0"
    if abs(value) < 0.5 * 10**-digits:  # 9.2e-06 as people write it: 9.2 × 10⁻⁶
        significand, exponent = f"{value:.1e}".split("e")
        raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"{significand} × 10{raised}".replace("-", "−")
    if abs(value) >= 1e6:
        return f"{value:.4g}".replace("-", "−")
    return f"{value:,.{digits}f}".replace("-", "−")


def page_percent(share: float) -> str:
    """Return a probability in percent for an HTML page; what is not quite 0 or 1 is not shown as if it were.

    share: from 0 to 1.
    """
    if min(share, 1 - share) < NOISE:
        return f"{100 * share:.0f}%"
    if 0 < share < 5e-4:
        return "<0.1%"
    if 0.9995 < share < 1:
        return ">99.9%"
    return f"{100 * share:.1f}%"


def page_amount(amount: Amount, write: Callable[[float], str]) -> str:
    """Return an amount for an HTML page: its value, or both ends of an interval, whose middle is no finding.

    write: turns a number into text, such as `page_number`.
    """
    if amount.method != "interval":
        return write(amount.value)
    return shared_number(amount.lower, amount.upper, write) or f"{write(amount.lower)} to {write(amount.upper)}"


def method_words(amount: Amount, digits: int = 4) -> str:
    """Return how an amount is known: exact, within which interval, or with which standard error.

    digits: after the point of the interval's ends.
    """
    interval = page_amount(Amount.between(amount.lower, amount.upper), lambda end: page_number(end, digits))
    if amount.method == "exact":
        return "exact"
    if amount.standard_error is not None:
        return f"estimate ± {amount.standard_error:.1g} (standard error); certainly {interval}"
    return f"certified: {interval}"


def axis_title(of: Uncertainty) -> str:
    """Return the title of an uncertainty with its unit: "opacity (bits)"."""
    return f"{of.title} ({of.unit})" if of.unit else of.title


def uncertainty_title(name: str) -> str:
    """Return an uncertainty in words, by its name: "guess error"; an unknown name without its underscores."""
    return UNCERTAINTIES[name].title if name in UNCERTAINTIES else name.replace("_", " ")


def figure_title(name: str) -> str:
    """Return the title of an axis for an uncertainty, by its name, with its unit: "guess error (probability)"."""
    units = {"opacity": "bits", "guess_error": "probability", "guesswork": "guesses"}
    return f"{name.replace('_', ' ')}{f' ({units[name]})' if name in units else ''}"
