"""What is built and published works without the repository, and commits are checked as `make` checks them."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from documents import ROOT
from opaq.version import EXTRAS, pip_install

SOURCE = ROOT / "src" / "opaq"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the unpacked wheel, made from the source distribution as `python -m build` does."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def run_package(package: Path, *arguments: str) -> str:
    """What Python prints outside the repository, with the unpacked wheel before everything else.

    Kernels are not compiled: a fresh copy has no machine code yet, and compiling it takes half a minute.
    """
    environment = {**os.environ, "PYTHONPATH": str(package), "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=package.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_the_package_and_nothing_else(package: Path) -> None:
    packed, ours = (
        {str(file.relative_to(top)) for file in top.rglob("*") if file.is_file() and "__pycache__" not in file.parts}
        for top in (package / "opaq", SOURCE)
    )
    assert packed == ours
    assert {"py.typed", "__init__.pyi", "scenarios/two-sink.yaml"} <= packed
    assert {".j2", ".js", ".css"} <= {Path(file).suffix for file in packed if file.startswith("reports/page/")}
    assert [path.name for path in package.iterdir() if not path.name.endswith(".dist-info")] == ["opaq"]


def test_the_wheel_works_outside_the_repository(package: Path) -> None:
    assert Path(run_package(package, "-c", "import opaq; print(opaq.__file__)").strip()).is_relative_to(package)
    assert "measure" in run_package(package, "-m", "opaq", "--help")
    assert "opacity      0.405639 bits" in run_package(package, "-m", "opaq", "measure", "two-sink", "--quiet")


def read_yaml(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_workflow_runs_make_test_on_every_python_that_is_promised() -> None:
    job = read_yaml(".github/workflows/test.yml")["jobs"]["test"]
    assert "make test" in [step.get("run") for step in job["steps"]]
    assert "${{ matrix.python }}" in job["container"]
    versions = job["strategy"]["matrix"]["python"]
    assert versions == ["3.11", "3.12", "3.13"]
    language = "Programming Language :: Python :: "
    promised = [word.removeprefix(language) for word in PROJECT["classifiers"] if word.startswith(f"{language}3.")]
    assert (promised, f">={versions[0]}") == (versions, PROJECT["requires-python"])


def test_commits_are_checked_by_programs_of_the_makefile() -> None:
    hooks = [hook["entry"].split() for repo in read_yaml(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    programs = {" ".join([Path(entry[0]).name, *entry[1:2]]) for entry in hooks}
    assert programs == {"ruff check", "ruff format", "mypy", "python docs/generate.py"}
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(f"$(BIN)/{program}" in rules for program in programs)


def test_what_optional_parts_need_is_what_they_bring() -> None:
    """Advice names the packages themselves, since opaq itself is there, and no index has it."""
    declared = PROJECT["optional-dependencies"]
    assert {extra: list(packages) for extra, packages in EXTRAS.items()} == {extra: declared[extra] for extra in EXTRAS}
    assert pip_install("dataframes") == "pip install 'pandas>=2.2' 'pyarrow>=17'"
