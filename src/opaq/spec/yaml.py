"""Read YAML (and so JSON) safely, keeping the line of everything read.

A file or a text comes in, a `Document` goes out: plain dicts, lists, texts, numbers, truth values and None, and a
mapping from dotted paths ("model.states.0") to lines. Everything that is wrong is raised as one InputError.

The document is built from libyaml's events with a stack of its own: nothing in a file can run code, exhaust Python's
recursion or blow up through aliases, and what YAML 1.1 would silently change (`no`, `off`, `1:30`, `007`, `1e-3`) is
read as it is meant.

    accepted   mappings, lists, quoted and plain scalars, anchors and aliases, one document per file
    refused    tags (`!!python/object`), merge keys (`<<`), a key twice in one mapping, a list or mapping as a key,
               several documents, more than MAX_BYTES bytes, MAX_DEPTH levels or MAX_VALUES values
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import yaml

from opaq.errors import Fault, Faults, InputError
from opaq.files import read_bytes

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML built without libyaml: slower, same events
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

MAX_BYTES = 64 * 2**20
MAX_DEPTH = 50
_MAX_ALIASED = 1_000_000  # values that aliases may add to a document
MAX_VALUES = 4_000_000  # scalars, lists and mappings

_MAX_PATH = 400  # longer paths are not remembered: their line is that of the longest known part
_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,299})")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS = {"": None, "~": None} | {
    spelling: value
    for word, value in (("null", None), ("true", True), ("false", False))
    for spelling in (word, word.capitalize(), word.upper())
}
_ITEM = re.compile(r"\[(\d+(?:, \d+)*)\]")  # how faults name an entry of a list, or of a list of lists
_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a file, and the line on which each part of it stands."""

    data: Any
    lines: Mapping[str, int]  # dotted path ("model.states.0") -> line, from 1


def load_yaml(path: str | os.PathLike[str]) -> Document:
    """Read one YAML or JSON file.

    path: the file, UTF-8 text with or without a byte-order mark.
    Returns the content and the line of every part of it.
    Raises InputError, naming the file, that lists everything wrong with it.
    """
    return parse_yaml(read_text(path), source=os.fspath(path))


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a UTF-8 file of at most MAX_BYTES, without its byte-order mark.

    path: the file.
    Raises InputError if it cannot be read, is too large, or is no UTF-8 text, with the line where that can be told.
    """
    source = os.fspath(path)
    content = read_bytes(path, max_bytes=MAX_BYTES, advice="large models belong in a binary format")
    if b"\0" in content:
        raise InputError([Fault("", "not a text file (it holds NUL bytes)", "save it as UTF-8 text")], source)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError([Fault("", "not UTF-8 text", "save it as UTF-8", line)], source) from None


def parse_yaml(text: str, *, source: str = "") -> Document:
    """Return the document in a text.

    text: YAML or JSON.
    source: what errors call the text, usually the name of its file; empty for none.
    Raises InputError that lists everything wrong with it. An empty text is wrong too.
    """
    builder = _DocumentBuilder()
    try:
        for event in yaml.parse(_join_surrogates(text), Loader=_Loader):
            builder.take(event)
    except yaml.YAMLError as error:
        builder.faults.append(_syntax_fault(error))
    except _RefusedError as refused:
        builder.faults.append(refused.fault)
    else:
        if not builder.faults and builder.root is None:
            builder.faults.append(Fault("", "the file is empty"))
    if builder.faults:
        raise InputError(builder.faults, source)
    return Document(builder.root, builder.lines)


def with_lines(faults: Iterable[Fault], lines: Mapping[str, int]) -> list[Fault]:
    """Return the same faults, each with the line of the longest part of its path that is in the file.

    faults: those of the content; one that has a line already keeps it.
    lines: dotted path -> line, from a Document.
    """
    return [
        fault if fault.line is not None else dataclasses.replace(fault, line=line_of(fault.where, lines))
        for fault in faults
    ]


def line_of(where: str, lines: Mapping[str, int]) -> int | None:
    """Return the line of a dotted path, or of its longest part that has one; None when no part has.

    where: as faults write it: "model.states[3]" and "model.transitions[0, 1]" mean "model.states.3" and
        "model.transitions.0.1".
    lines: dotted path -> line, from a Document.
    """
    path = _ITEM.sub(lambda match: "." + ".".join(match[1].split(", ")), where)
    while path and path not in lines:
        path = path.rpartition(".")[0]
    return lines.get(path) if path else None


def _plain_value(text: str) -> str | int | float | bool | None:
    """Return what an unquoted scalar means: YAML 1.2's core schema, but `007`, `0x1F` and `0o17` stay text.

    `12` is an int, `1e-3`, `.5` and `.inf` are floats, `true` is True, `null`, `~` and nothing are None; `no`, `off`
    and `1:30` are texts.
    """
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _SPECIAL.fullmatch(text):
        return float(text.replace(".", "").lower())
    return text


def _join_surrogates(text: str) -> str:
    """Return the text with the pairs of escapes joined by which JSON writes characters beyond U+FFFF, and YAML refuses.

    A text that does not begin with `{` or `[` is no JSON and comes back as it is.
    """
    if "\\u" not in text or text.lstrip()[:1] not in ("{", "["):
        return text

    def join_pair(match: re.Match[str]) -> str:
        """Return the one escape of both halves, after the escaped backslashes before them."""
        pair = bytes.fromhex(match[2] + match[3]).decode("utf-16-be")
        return f"{match[1]}\\U{ord(pair):08x}"

    return _SURROGATES.sub(join_pair, text)


def _syntax_fault(error: yaml.YAMLError) -> Fault:
    """Return the fault of libyaml's own error, in one line and with its line number where it has one."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        finding = f"syntax error at column {error.problem_mark.column + 1}: {error.problem or error.context}"
        return Fault("", finding, line=error.problem_mark.line + 1)
    reason = str(error.reason) if isinstance(error, yaml.reader.ReaderError) else str(error)
    return Fault("", f"not YAML: {' '.join(reason.split())}")


class _RefusedError(Exception):
    """Raised to stop reading: going on would be unsafe or without meaning."""

    def __init__(self, fault: Fault) -> None:
        """Keep the fault that ends the reading."""
        self.fault = fault


@dataclass(frozen=True, slots=True)
class _Node:
    """A finished value, how many values it holds and how deep they go: what an alias of it adds to the document."""

    value: Any
    size: int = 1
    height: int = 0


_NO_KEY, _DROPPED = object(), object()  # a key that is still to come, and one whose value is read and dropped


@dataclass(slots=True)
class _OpenContainer:
    """A mapping or list being filled."""

    container: dict[Any, Any] | list[Any]
    path: str
    line: int
    anchor: str | None
    key: Any = _NO_KEY
    key_lines: dict[Any, int] = field(default_factory=dict)
    size: int = 1
    height: int = 0


@dataclass(slots=True)
class _DocumentBuilder:
    """Builds the document from events with a stack of open mappings and lists; `root` is the document at the end.

    Faults are collected where reading can go on; what would be unsafe raises _RefusedError.

    lines: dotted path -> line of what has been read so far; faults: what is wrong so far.
    _anchors: anchor -> its finished value; _aliased: how many values aliases have added; _values: how many events came.
    """

    root: Any = None
    lines: dict[str, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    _stack: list[_OpenContainer] = field(default_factory=list)
    _anchors: dict[str, _Node | None] = field(default_factory=dict)  # None: not finished yet
    _aliased: int = 0
    _has_document: bool = False
    _values: int = 0

    def take(self, event: yaml.Event) -> None:
        """Act on one event of libyaml's parser.

        event: a scalar, the start or end of a mapping or list, an alias, or the start of a document; others do nothing.
        Raises _RefusedError for a second document, and beyond MAX_VALUES events.
        """
        self._values += 1
        if self._values > MAX_VALUES:
            raise _RefusedError(Fault("", f"holds more than {MAX_VALUES:,} values", "use a binary format"))
        line = event.start_mark.line + 1 if event.start_mark is not None else 0
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event, line)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._start(event, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            done = self._stack.pop()
            self._finish(_Node(done.container, done.size, done.height + 1), done.line, done.anchor)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(str(event.anchor), line)
        elif isinstance(event, yaml.DocumentStartEvent):
            if self._has_document:
                raise _RefusedError(Fault("", "holds more than one document ('---')", "keep one document a file", line))
            self._has_document = True

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        """Put a scalar where it belongs; a merge key (`<<`) is noted and its value dropped."""
        self._refuse_tag(event.tag, line)
        plain = event.implicit[0]
        if plain and event.value == "<<" and self._awaits_key():
            advice = 'write the keys out, or quote "<<" if it is a name'
            self.faults.append(Fault(self._path(), "merge keys (<<) are not supported", advice, line))
            self._stack[-1].key = _DROPPED
            return
        self._finish(_Node(_plain_value(event.value) if plain else event.value), line, event.anchor)

    def _start(self, event: yaml.CollectionStartEvent, line: int) -> None:
        """Open a mapping or a list, whose anchor cannot be used before it is finished.

        Raises _RefusedError where it would be deeper than MAX_DEPTH.
        """
        self._refuse_tag(event.tag, line)
        self._refuse_depth(len(self._stack) + 1, line)
        path = self._path()
        self._remember(path, line)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        container: dict[Any, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._stack.append(_OpenContainer(container, path, line, event.anchor))

    def _alias(self, name: str, line: int) -> None:
        """Put the value of an anchor where its alias stands, within the limits on what aliases may add.

        name: the anchor. Raises _RefusedError for one that does not exist or that holds the alias itself.
        """
        node = self._anchors.get(name)
        if node is None:
            reason = "refers to what holds it" if name in self._anchors else "has no anchor before it"
            raise _RefusedError(Fault(self._path(), f"the alias *{name} {reason}", "write the value out", line))
        self._aliased += node.size
        if self._aliased > _MAX_ALIASED:
            finding = f"aliases expand to more than {_MAX_ALIASED:,} values"
            raise _RefusedError(Fault(self._path(), finding, "write the values out", line))
        self._refuse_depth(len(self._stack) + node.height, line)
        self._finish(node, line, None)

    def _finish(self, node: _Node, line: int, anchor: str | None) -> None:
        """Put a finished value where it belongs: as the root, as a key, or as the value of the key before it.

        line: where the value begins; anchor: the name by which aliases may repeat it.
        """
        if anchor is not None:
            self._anchors[anchor] = node
        if not self._stack:
            self.root = node.value
            return
        top = self._stack[-1]
        top.size += node.size
        top.height = max(top.height, node.height)
        if self._awaits_key():
            self._take_key(top, node, line)
            return
        self._remember(self._path(), line)
        if isinstance(top.container, list):
            top.container.append(node.value)
        elif top.key is not _DROPPED:
            top.container[top.key] = node.value
        top.key = _NO_KEY

    def _take_key(self, top: _OpenContainer, node: _Node, line: int) -> None:
        """Remember a key of the open mapping; one that is no name or is there twice is noted and its value dropped.

        top: the mapping; node: the key; line: where the key stands.
        """
        key = node.value
        if isinstance(key, dict | list):
            self.faults.append(Fault(top.path, "a key must be a name or a number, not a list or mapping", line=line))
            top.key = _DROPPED
        elif key in top.key_lines:
            finding = f"the key appears twice, on lines {top.key_lines[key]} and {line}"
            self.faults.append(Fault(_join_path(top.path, key), finding, "keep one of them", line))
            top.key = _DROPPED
        else:
            top.key = key
            top.key_lines[key] = line
            self._remember(self._path(), line)

    def _awaits_key(self) -> bool:
        """Return whether the next value is a key of a mapping."""
        return bool(self._stack) and isinstance(self._stack[-1].container, dict) and self._stack[-1].key is _NO_KEY

    def _path(self) -> str:
        """Return the path of the value that comes next, e.g. "model.states.0"; "" for the document itself."""
        if not self._stack:
            return ""
        top = self._stack[-1]
        if isinstance(top.container, list):
            return _join_path(top.path, len(top.container))
        return top.path if top.key in (_NO_KEY, _DROPPED) else _join_path(top.path, top.key)

    def _remember(self, path: str, line: int) -> None:
        """Keep the line of a path, the first one if there are two."""
        if 0 < len(path) <= _MAX_PATH:
            self.lines.setdefault(path, line)

    def _refuse_tag(self, tag: str | None, line: int) -> None:
        """Note a tag, such as `!!python/object`: tags could run code."""
        if tag is not None:
            self.faults.append(Fault(self._path(), f"tags are not supported, found '{tag}'", "remove the tag", line))

    def _refuse_depth(self, depth: int, line: int) -> None:
        """Raise _RefusedError beyond MAX_DEPTH levels."""
        if depth > MAX_DEPTH:
            # The path of such a place says nothing: it is as long as the file is deep.
            raise _RefusedError(Fault("", f"nested deeper than {MAX_DEPTH} levels", line=line))


def _join_path(path: str, key: Any) -> str:
    """Return the path of a key below another path.

    key: null, true and false are spelled as YAML spells them; numbers are those of list entries.
    """
    text = "null" if key is None else str(key).lower() if isinstance(key, bool) else str(key)
    return f"{path}.{text}" if path else text


@contextmanager
def locate_faults(document: Document, source: str, warnings: Faults | None) -> Iterator[Faults]:
    """Yield a collector of faults for the content of a document.

    source: the name of the file in errors.
    warnings: gets the warnings in the end, each with its line; None drops them.
    Raises InputError with every error that was collected or raised inside, each with its line.
    """
    collected = Faults()
    try:
        yield collected
        collected.raise_if_any()
    except InputError as error:
        raise InputError(with_lines(error.faults, document.lines), source) from None
    finally:
        if warnings is not None:
            warnings.warnings.extend(with_lines(collected.warnings, document.lines))
