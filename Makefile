PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
AXE := 4.14.0
# uv unpacks side by side: the environment of the tests is there in half a minute, by pip it takes several. Without uv
# (no network but an index of your own, say) pip does it. The second argument is for options of uv.
define INSTALL
$(BIN)/python -m pip install --quiet uv && $(BIN)/uv pip install --quiet $(2) --python $(BIN)/python -e $(1) \
		|| $(BIN)/python -m pip install --quiet -e $(1)
endef
# Compiled modules are kept: the tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo test bench docs axe

help:  ## show the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# One stamp for each set of dependencies: nothing is installed twice until pyproject.toml changes.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(call INSTALL,.,--compile-bytecode)
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(call INSTALL,'.[test]')
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: pyproject.toml | $(BIN)/python
	$(call INSTALL,'.[bench]')
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	$(call INSTALL,'.[docs]')
	@touch $@ $(VENV)/.installed

# Modules are compiled once, here: where PYTHONDONTWRITEBYTECODE is set, as in many containers, every start of `opaq` would
# compile them again, which takes longer than a short command. pip does so unasked, but not for a checkout.
install: $(VENV)/.installed  ## install opaq into .venv
	@$(BIN)/python -m compileall -q src/opaq

demo: install  ## solve the grid of the paper, set the answer beside the paper's, write the report
	$(BIN)/opaq reproduce grid-last-state-4 --quick --output out/demo --overwrite
	$(BIN)/opaq solve grid-last-state-4 --conditions state,time --starts 2 --report out/demo/report.html --overwrite
	@echo "figures (also .svg, .png): out/demo/grid-last-state-4.pdf, out/demo/grid-last-state-4-policy.pdf; table: out/demo/results.md"
	@echo "the report, to be opened in a browser: $(CURDIR)/out/demo/report.html"

# axe-core checks the report's page for barriers; the tests that need it are skipped, by name, where there is no npm.
axe: node_modules/.axe-$(AXE)  ## fetch axe-core for the tests of the report's page

node_modules/.axe-$(AXE):
	@mkdir -p node_modules
	@npm install --no-save --no-package-lock --no-audit --no-fund --silent --prefix . axe-core@$(AXE) \
		&& touch $@ || echo "NOTE: axe-core could not be fetched with npm; tests of the page's accessibility are skipped"

test: $(VENV)/.installed-test axe  ## style, types and tests
	@command -v chromium >/dev/null \
		|| echo "NOTE: install Debian's chromium (apt-get install chromium); the browser tests of the report are skipped"
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	@# One core checks types while the other compiles the kernels, once for all tests, which then begin.
	@mkdir -p out; $(BIN)/mypy >out/types.txt 2>&1 & types=$$!; \
		$(BIN)/python -c "from opaq.opacity.kernel_warmup import compile_kernels; compile_kernels(derivatives=True)" \
		&& $(BIN)/pytest -n 2 --dist worksteal -rs; tested=$$?; \
		wait $$types; checked=$$?; cat out/types.txt; exit $$((tested + checked))

bench: $(VENV)/.installed-bench  ## compare with peers and write docs/benchmarks.md
	$(BIN)/python -m benchmarks

docs: $(VENV)/.installed-docs  ## build the docs site into out/docs; warnings are errors
	$(BIN)/python docs/generate.py --check
	$(BIN)/python -m sphinx -q -b html -W --keep-going -n -d out/docs-trees docs out/docs
	@echo "the site: out/docs/index.html"
