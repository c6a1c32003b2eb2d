"""What YAML files may and may not do to us."""

from __future__ import annotations

import contextlib
import json
import math
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counting import count_calls
from opaq.errors import Fault, InputError
from opaq.spec import yaml as reader
from opaq.spec.yaml import line_of, load_yaml, parse_yaml, with_lines

READ_AS = [
    ("1", 1),
    ("-3", -3),
    ("+4", 4),
    ("0", 0),
    ("1e-3", 1e-3),
    ("1E5", 1e5),
    ("1e+5", 1e5),
    ("1.", 1.0),
    (".5", 0.5),
    (".5e3", 500.0),
    ("-1.5e-2", -0.015),
    (".inf", math.inf),
    ("-.inf", -math.inf),
    ("true", True),
    ("False", False),
    ("null", None),
    ("~", None),
    ("yes", "yes"),
    ("no", "no"),
    ("on", "on"),
    ("off", "off"),
    ("y", "y"),
    ("n", "n"),
    ("N", "N"),
    ("1:30", "1:30"),
    ("1:30.5", "1:30.5"),
    ("007", "007"),
    ("0o17", "0o17"),
    ("0x1F", "0x1F"),
    ("0b11", "0b11"),
    ("1_000", "1_000"),
    ("2024-01-31", "2024-01-31"),
    ("2024-01-31 10:00:00", "2024-01-31 10:00:00"),
    ("e5", "e5"),
    (".", "."),
    ("1.2.3", "1.2.3"),
    ("=", "="),
    ("'1'", "1"),
    ('"true"', "true"),
    ('"\\u00e9"', "é"),
    ("nan", "nan"),
    ("inf", "inf"),
    ("9" * 400, "9" * 400),
]


@pytest.mark.parametrize(("text", "value"), READ_AS)
def test_scalars_are_read_as_they_are_meant(text: str, value: object) -> None:
    found = parse_yaml(f"key: {text}").data["key"]
    assert found == value
    assert type(found) is type(value)


def test_nan_is_a_float() -> None:
    assert math.isnan(parse_yaml("a: .nan").data["a"])


def test_keys_are_read_like_values() -> None:
    data = parse_yaml("{no: 1, off: 2, 3: x, '4': y, true: z}").data
    assert data == {"no": 1, "off": 2, 3: "x", "4": "y", True: "z"}


REFUSED = [
    ("", "the file is empty"),
    ("# only a comment\n", "the file is empty"),
    ("---\n", "the file is empty"),
    ("a: 1\n---\nb: 2\n", "more than one document"),
    ("a: !!python/object/apply:os.system ['echo hacked']", "tags are not supported"),
    ("a: !mine x", "tags are not supported"),
    ("!!set {a, b}", "tags are not supported"),
    ("a: &x {b: 1}\nc: {<<: *x, d: 2}", "merge keys"),
    ("a: *nowhere", "has no anchor"),
    ("a: &x [1, *x]", "refers to what holds it"),
    ("? [1, 2]\n: x", "a key must be a name or a number"),
    ("{{a: 1}: 2}", "a key must be a name or a number"),
    ("a: [1, 2", "syntax error"),
    ("a: b: c", "syntax error at column 5"),
    ("a:\n\t- 1", "syntax error"),
    ("a: 'open", "syntax error"),
    ("a: @x", "syntax error"),
    ('a: "\\q"', "syntax error"),
    ("a: \x07", "not YAML"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_what_is_refused_is_refused_in_words(text: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_yaml(text, source="file.yaml")
    assert any(reason in line and line.startswith("file.yaml: ") for line in caught.value.lines())


def test_a_quoted_merge_sign_is_a_name() -> None:
    assert parse_yaml('"<<": 1').data == {"<<": 1}


def test_every_duplicate_key_is_reported_with_both_lines() -> None:
    text = "model:\n  a: 1\n  b: 2\n  a: 3\n  a: {x: 1, x: 2}\nmodel: 7\n"
    with pytest.raises(InputError) as caught:
        parse_yaml(text)
    found = [(fault.where, fault.line) for fault in caught.value.faults]
    assert found == [("model.a", 4), ("model.a", 5), ("model.x", 5), ("model", 6)]
    assert "on lines 2 and 4" in caught.value.faults[0].message


def test_syntax_errors_carry_line_and_column() -> None:
    with pytest.raises(InputError) as caught:
        parse_yaml("a: 1\nb: c: d\n")
    assert caught.value.faults[0].line == 2
    assert "column 5" in caught.value.faults[0].message


def test_the_line_of_everything_is_known() -> None:
    text = "model:\n  states: [a, b]\n  transitions:\n    a: {go: {b: 1}}\n    1:\n      - x\n      - y\n"
    document = parse_yaml(text)
    expected = {
        "model": 1,
        "model.states": 2,
        "model.states.1": 2,
        "model.transitions": 3,
        "model.transitions.a.go.b": 4,
        "model.transitions.1": 5,
        "model.transitions.1.1": 7,
    }
    assert expected.items() <= document.lines.items()


def test_faults_get_the_line_of_the_longest_known_part() -> None:
    lines = {"model": 1, "model.states": 2, "model.states.0": 2, "a.b": 9}
    where = ["model.states[0]", "model.states[0, 1]", "model.states[7].x", "model.nothing", "secret", "", "a.b.c"]
    assert [line_of(path, lines) for path in where] == [2, 2, 2, 1, None, None, 9]
    kept = Fault("model", "x", line=40)
    assert with_lines([kept, Fault("model", "y")], lines) == [kept, Fault("model", "y", line=1)]


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}"), ('{"a":', "}")])
def test_depth_is_limited_without_recursion(opening: str, closing: str) -> None:
    limit = reader.MAX_DEPTH
    assert parse_yaml(opening * limit + "1" + closing * limit).data
    for depth in (limit + 1, 100_000):
        with pytest.raises(InputError, match="nested deeper than 50"):
            parse_yaml(opening * depth + "1" + closing * depth)


def test_depth_counts_through_aliases() -> None:
    half = "[" * 30 + "]" * 30
    assert parse_yaml(f"a: &x {half}\nb: *x").data
    with pytest.raises(InputError, match="nested deeper"):
        parse_yaml(f"a: &x {half}\nb: {'[' * 20}*x{']' * 20}")


def test_a_billion_laughs_are_refused_quickly() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]

    def refused() -> None:
        with pytest.raises(InputError, match="aliases expand to more than"):
            parse_yaml("\n".join(lines))

    assert count_calls(refused) < 10_000


def test_aliases_share_values() -> None:
    assert parse_yaml("a: &x {p: 1}\nb: *x\nc: [*x]\nd: &k key\ne: {*k : 1}").data == {
        "a": {"p": 1},
        "b": {"p": 1},
        "c": [{"p": 1}],
        "d": "key",
        "e": {"key": 1},
    }


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    # YAML has no way to write a lone surrogate, and neither has UTF-8
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("ab \\\"'#:é😀", max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON.filter(lambda value: value is not None), st.sampled_from([None, 2]), st.booleans())
def test_json_is_yaml(value: object, indent: int | None, ascii_only: bool) -> None:
    # A bare top-level string is not what surrogate pairs are joined in; documents are objects or lists.
    text = json.dumps([value], indent=indent, ensure_ascii=ascii_only)
    # Characters that JSON leaves bare and YAML calls unprintable must be escaped.
    if all(char.isprintable() or char == "\n" for char in text):
        assert parse_yaml(text).data == [value]


def test_json_with_tabs_and_a_bom(tmp_path) -> None:
    file = tmp_path / "p.json"
    file.write_bytes(b'\xef\xbb\xbf{\n\t"a":\t1,\n\t"b": ["\\/", "\\ud83d\\ude00", "\\\\ud83d"]\n}')
    assert load_yaml(file).data == {"a": 1, "b": ["/", "😀", "\\ud83d"]}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a: 1\0", "not a text file"),
        (b"a: 1\nb: \xff\xfe", "not UTF-8 text; save it as UTF-8 (line 2)"),
        ("a: 1".encode("utf-16"), "not a text file"),
    ],
)
def test_files_that_are_not_text(tmp_path, content: bytes, reason: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_yaml(file)
    assert str(caught.value).startswith(str(file))
    assert reason in str(caught.value)


def test_files_that_cannot_be_read(tmp_path) -> None:
    cases = [
        (tmp_path / "none.yaml", "no such file"),
        (tmp_path, "is a folder"),
        ("a\0b", "cannot be the name of a file"),
    ]
    for path, reason in cases:
        with pytest.raises(InputError, match=reason):
            load_yaml(path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="permissions do not bind this user")
def test_a_file_without_permission(tmp_path) -> None:
    file = tmp_path / "secret.yaml"
    file.write_text("a: 1")
    file.chmod(0)
    with pytest.raises(InputError, match="may not be read"):
        load_yaml(file)


def test_huge_files_are_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(reader, "MAX_BYTES", 2**20)
    file = tmp_path / "huge.yaml"
    file.write_bytes(b"a: " + b"x" * 2**20)
    with pytest.raises(InputError, match="the limit is 1,048,576; large models"):
        load_yaml(file)


@given(st.text(st.sampled_from("ab:- \n[]{}&*!,?'\"#|>%@`\t1.~<"), max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    with contextlib.suppress(InputError):
        parse_yaml(text)
