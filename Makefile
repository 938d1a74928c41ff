# `make` lists the targets. Needs GNU make and Python 3.11 or newer, nothing else.

PYTHON ?= python3
GPU_PYTHON ?= python3
PYMC6_PYTHON ?= python3.12
PYTEST_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PYMC6_VENV := .venv-pymc6
DEMO := results/demo
DEMO_PAGE := $(DEMO)/report.html
RELEASE := build/release
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo test test-all gpu-test pymc6-test docs figures lint format bench release-check clean

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)$$/make \1@\2/p' Makefile | \
	    while IFS=@ read -r name text; do printf '  %-16s %s\n' "$$name" "$$text"; done

venv: $(VENV)/.installed ## create .venv and install uivi with its test tools

demo: venv ## fit the toy posteriors, write a report page (two minutes)
	$(BIN)/uivi run toy --method uivi,explicit --out $(DEMO) --resume
	@test -f $(DEMO_PAGE) || { echo "error: the report did not write $(DEMO_PAGE)" >&2; exit 1; }
	@echo "Done. Open $(DEMO_PAGE) in a web browser."

test: venv ## run the tests but for slow repetitions (options: make test PYTEST_ARGS="-x tests/fitting/test_fit.py")
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow" $(PYTEST_ARGS)

test-all: venv ## run every test
	$(BIN)/python -m pytest -n 2 --dist loadfile $(PYTEST_ARGS)

gpu-test: ## test the fused kernels on a Hopper GPU (GPU_PYTHON: has JAX for CUDA, uivi[gpu,test])
	$(GPU_PYTHON) -m pytest -p no:cacheprovider tests/gpu/test_gpu.py tests/gpu/test_gpu_collapsed.py

pymc6-test: ## test PyMC 6 in a venv of its own (PYMC6_PYTHON: Python 3.12 or newer)
	$(PYMC6_PYTHON) -m venv $(PYMC6_VENV)
	$(PYMC6_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test]' 'pymc>=6'
	$(PYMC6_VENV)/bin/python -m pytest $(PYTEST_ARGS) tests/integrations/test_pymc.py tests/integrations/test_arviz.py

docs: $(VENV)/.installed-docs ## build the documentation into build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

figures: venv ## run tutorials and gallery in full, write their figures and outputs (some minutes)
	$(BIN)/python -m tests.pages docs/tutorials/*.md docs/gallery.md

lint: $(VENV)/.installed-dev ## check style, types and spelling, change nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/codespell

format: $(VENV)/.installed-dev ## reformat the code and apply the safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

release-check: $(VENV)/.installed-dev ## build sdist and wheel, install the wheel afresh, run the README's first example
	rm -rf $(RELEASE)
	$(BIN)/python -m build --outdir $(RELEASE) .
	$(PYTHON) -m venv $(RELEASE)/venv
	$(RELEASE)/venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(RELEASE)/*.whl
	cd $(RELEASE) && venv/bin/python ../../.ci/first_example.py ../../README.md

bench: venv ## time one update of each method
	$(BIN)/uivi bench --quick

clean: ## remove caches, builds and the demo; keep .venv and other results
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache $(DEMO)
	find . -path ./$(VENV) -prune -o -type d -name __pycache__ -exec rm -rf {} +

# Syntax that any Python understands, so that an old one can give the answer.
define CHECK_PYTHON
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
    found=$$($(PYTHON) --version 2>&1) || found="not found"; \
    echo "error: uivi needs Python 3.11 or newer; '$(PYTHON)': $$found" >&2; \
    echo "Install a newer Python and name it: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; \
    exit 1; }
endef

# The stamps make the installs run again only when one of the two files changes.
$(VENV)/.installed: pyproject.toml constraints.txt
	@$(CHECK_PYTHON)
	@echo "Installing uivi into $(VENV) (about a minute the first time)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) -e '.[test]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "Installing the development tools into $(VENV)"
	@$(PIP_INSTALL) -e '.[test,dev]'
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	@echo "Installing the tools for the documentation into $(VENV)"
	@$(PIP_INSTALL) -e '.[test,docs]'
	@touch $@
