"""Imports point one way, and the light commands stay light."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import opaq

SOURCE = Path(opaq.__file__).parent

# Each layer may import the layers before it; those on one line know nothing of each other.
LAYERS = [
    ["errors", "version"],
    ["codec", "commands", "display", "files", "kernel_cache", "lexer", "stop", "threads"],
    ["model"],
    ["automata"],
    ["spec"],
    ["product"],
    ["formats"],
    ["load"],
    ["beliefs"],
    ["opacity"],
    ["simulation"],
    ["solvers"],
    ["certificates"],
    ["study"],
    ["reports"],
    ["paper"],
    ["extensions"],
    ["cli"],
    ["__init__", "__main__"],
]
RANK = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}


def part_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every part of opaq a module imports, at any depth of the code, with the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: write imports from the top, opaq..."
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            continue
        for module in modules:
            top, _, rest = module.partition(".")
            if top == "opaq":
                part = rest.partition(".")[0]
                yield (part if part in RANK else "__init__"), node.lineno


def arrows() -> list[tuple[str, str, str]]:
    files = sorted(SOURCE.rglob("*.py"))
    return [
        (part_of(file), part, f"{file.relative_to(SOURCE)}:{line}")
        for file in files
        for part, line in imported(ast.parse(file.read_text(encoding="utf-8")))
    ]


def test_every_part_has_a_layer() -> None:
    parts = {part_of(file) for file in SOURCE.rglob("*.py")}
    assert parts <= set(RANK)


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("__init__.py")), ids=lambda file: file.parent.name)
def test_every_package_says_what_it_is_in_two_sentences(file: Path) -> None:
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    assert len(re.findall(r"[.:]( |\n|$)", text)) >= 2
    if file.parent.parent == SOURCE:
        assert "Imports: " in text


def test_no_arrow_turns_round() -> None:
    def allowed(importer: str, part: str) -> bool:
        return importer == part or (RANK[part] < RANK[importer])

    wrong = [f"{where}: {importer} imports {part}" for importer, part, where in arrows() if not allowed(importer, part)]
    assert not wrong, "\n".join(wrong)


def test_the_rule_sees_imports_inside_functions() -> None:
    tree = ast.parse("def f():\n    from opaq import solvers\n    import opaq.cli.main\n    from opaq import measure\n")
    assert list(imported(tree)) == [("solvers", 2), ("cli", 3), ("__init__", 4)]


NAMED = re.compile(r"opaq\.([a-z_]+)[a-z_.]*:[a-z_]+")
# What is imported late, because the start must be light or a base class comes before what shows it.
LATE = {("commands", "cli"), ("display", "reports")}


def named(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Every "opaq.module:function" in a text of a module: the part, and the text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (match := NAMED.fullmatch(node.value)):
            yield match[1], node.value


def test_modules_named_in_strings_are_there_and_few_point_upwards() -> None:
    upwards = set()
    for file in sorted(SOURCE.rglob("*.py")):
        for part, text in named(ast.parse(file.read_text(encoding="utf-8"))):
            module, _, name = text.partition(":")
            assert hasattr(import_module(module), name), f"{file.name}: {text}"
            if RANK[part] > RANK[part_of(file)]:
                upwards.add((part_of(file), part))
    assert upwards == LATE


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = opaq.nothing


def test_the_wheel_has_the_stub() -> None:
    """The public names are read from it when opaq is imported."""
    assert (SOURCE / "__init__.pyi").is_file()
    assert (SOURCE / "py.typed").is_file()


@pytest.mark.parametrize("statement", ["import opaq", "import opaq.cli.main"])
def test_the_start_is_light(statement: str) -> None:
    heavy = ["numpy", "scipy", "numba", "matplotlib", "yaml", "opaq.spec", "opaq.model"]
    code = f"import sys; {statement}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


RARE = ["tarfile", "opaq.formats.umb", "opaq.formats.pomdp", "opaq.formats.prism", "opaq.automata.regex"]


@pytest.mark.parametrize(
    ("command", "heavy"),
    [
        ("measure", ["pydantic", "rich", "scipy.sparse", *RARE, "opaq.solvers.solve", "opaq.certificates"]),
        ("solve", ["pydantic", "rich", "scipy.sparse", *RARE, "opaq.certificates"]),
    ],
)
def test_short_commands_load_what_they_need(command: str, heavy: list[str]) -> None:
    code = (
        f"import sys; from opaq.cli.main import main; code = main(['{command}', 'two-sink', '--json', '--quiet'])\n"
        f"print(code, [name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "0 []"


def test_what_a_module_says_of_others_is_there() -> None:
    """Words such as umb_writer in the docstring of a module are names that its package has."""
    texts = {file: file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py")}
    heads = {file: ast.get_docstring(ast.parse(text)) or "" for file, text in texts.items()}
    known = {file.stem for file in texts}
    for file, text in texts.items():
        known |= {*re.findall(r"\w+", text.replace(heads[file], ""))}
    cited = {word for head in heads.values() for word in re.findall(r"(?<!eq\. )\b[a-z]+(?:_[a-z]{3,})+\b", head)}
    assert cited - known == set()
