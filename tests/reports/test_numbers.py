"""Amounts in words: an interval narrower than the digits shown is read as one number, a wider one as two ends."""

from __future__ import annotations

import json

import pytest

from opaq.codec import encode
from opaq.opacity.amount import Amount
from opaq.reports.numbers import (
    amount_cell,
    amount_phrase,
    amount_words,
    method_words,
    number,
    page_amount,
    page_number,
    shared_number,
)

NARROW = Amount.between(1.9970001, 1.9970002)
WIDE = Amount.between(1.9, 1.95)
ESTIMATE = Amount.estimate(1.9970001, 1.9970001, 1.9970002, standard_error=1e-8)


def test_the_number_is_the_one_that_both_ends_round_to() -> None:
    assert shared_number(1.9970001, 1.9970002, number) == "1.997"
    assert shared_number(1.99704, 1.99706, lambda end: number(end, 5)) is None  # they round apart, though close
    assert shared_number(0.3, 0.3, number) == "0.3"


@pytest.mark.parametrize("amount", [NARROW, ESTIMATE])
def test_a_narrow_interval_is_one_number_everywhere(amount: Amount) -> None:
    assert amount_phrase(amount) == "1.997"
    assert amount_words(amount) == "1.997"
    assert amount_cell(amount) == "1.9970"
    assert page_amount(amount, page_number) == "1.997"


def test_how_a_narrow_interval_is_known_has_one_number_too() -> None:
    assert method_words(NARROW) == "certified: 1.9970"
    assert str(NARROW) == "1.997"


def test_a_wide_interval_keeps_both_ends() -> None:
    assert amount_phrase(WIDE) == "between 1.9 and 1.95"
    assert amount_words(WIDE) == "[1.9, 1.95] certified"
    assert amount_cell(WIDE) == "[1.9000, 1.9500]"
    assert page_amount(WIDE, page_number) == "1.900 to 1.950"
    assert method_words(WIDE) == "certified: 1.9000 to 1.9500"
    assert str(WIDE) == "[1.9, 1.95]"


def test_a_difference_around_0_has_one_sign() -> None:
    assert amount_cell(Amount.between(-1e-9, 1e-9), sign="+") == "+0.0000"


def test_the_json_keeps_both_ends() -> None:
    data = json.loads(json.dumps(encode(NARROW)))
    assert (data["lower"], data["upper"]) == (NARROW.lower, NARROW.upper)
