PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help install demo test bench docs

help:  ## show the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# One stamp for each set of dependencies: nothing is installed twice until pyproject.toml changes.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e .
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[test]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	@touch $@ $(VENV)/.installed

install: $(VENV)/.installed  ## install opaq into .venv

demo: install  ## solve the grid of the paper and set the answer beside the paper's
	$(BIN)/opaq reproduce grid-last-state-4 --quick --to out/demo --force
	@echo "pictures: out/demo/grid-last-state-4.svg and out/demo/grid-last-state-4-policy.svg; table: out/demo/results.md"

test: $(VENV)/.installed-test  ## style, types and tests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pytest -n 2

bench: $(VENV)/.installed-bench  ## time the numerical core
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/time_to_quality.py

docs: $(VENV)/.installed-docs  ## build the docs site into out/docs; warnings are errors
	$(BIN)/python docs/generate.py --check
	$(BIN)/python -m sphinx -q -b html -W --keep-going -n -d out/docs-trees docs out/docs
	@echo "the site: out/docs/index.html"
