# Every target sets up what it needs: a Python of 3.10 or newer and pip are enough. Works with GNU make 3.81.

PYTHON ?= python3
VENV ?= .venv
PEERS ?= .peers
PYTEST_ARGS ?=
BENCH_ARGS ?=

PY := $(VENV)/bin/python
STAMP := $(VENV)/.ready
# Two processes. What needs no Spark shares nothing; what starts Spark or speaks to a peer has one session and one peer
# in each process, and stays together by files, in their order: the slow ones (races, kills, peers) come first.
ALONE := not spark and not peers
ON_SPARK := spark or peers
ONE_BY_ONE := -n 2 --dist worksteal
BY_FILES := -n 2 --dist loadfile --no-loadscope-reorder

export PYTHON
export TIDEGATE_PEERS := $(PEERS)

.DEFAULT_GOAL := help
.PHONY: help setup peers demo test test-unit test-deep test-grown test-oldest lint format bench lock clean

help: ## show this list
	@echo 'Tidegate. Targets:'
	@echo
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-10s  %s\n", $$1, $$2 }' Makefile
	@echo
	@echo 'Variables: PYTHON (the interpreter to set up with), VENV (where to), PYTEST_ARGS (passed to pytest), BENCH_ARGS (parts).'

setup: $(STAMP) ## make .venv with everything the other targets use; done once, again when the lock changes

$(STAMP): requirements-dev.lock pyproject.toml tools/setup.sh
	@sh tools/setup.sh '$(VENV)'
	@touch '$@'

peers: $(STAMP) ## make the environments of peers that cannot live in .venv (delta-spark)
	@sh tools/peers.sh '$(PEERS)'

demo: $(STAMP) ## run the demonstration: the log first, then the story on Spark
	@$(PY) examples/demo.py
	@$(PY) examples/spark_demo.py

test: $(STAMP) peers ## run every test: those without Spark first, then the rest
	$(PY) -m pytest tests -m '$(ALONE)' $(ONE_BY_ONE) $(PYTEST_ARGS)
	$(PY) -m pytest tests -m '$(ON_SPARK)' $(BY_FILES) $(PYTEST_ARGS)

test-unit: $(STAMP) ## run the unit tests that need neither Spark nor a server
	$(PY) -m pytest tests/unit -m 'not s3 and not spark' $(ONE_BY_ONE) $(PYTEST_ARGS)

test-deep: $(STAMP) peers ## run every test with large budgets (TIDEGATE_DEEP=1); takes long
	TIDEGATE_DEEP=1 $(PY) -m pytest tests -m '$(ALONE)' $(ONE_BY_ONE) $(PYTEST_ARGS)
	TIDEGATE_DEEP=1 $(PY) -m pytest tests -m '$(ON_SPARK)' $(BY_FILES) $(PYTEST_ARGS)

test-grown: $(STAMP) peers ## run what test-deep has beyond test: only the tests that large budgets make more of
	TIDEGATE_DEEP=1 $(PY) -m pytest tests -m 'budget and ($(ALONE))' $(ONE_BY_ONE) $(PYTEST_ARGS)
	TIDEGATE_DEEP=1 $(PY) -m pytest tests -m 'budget and ($(ON_SPARK))' $(BY_FILES) $(PYTEST_ARGS)

test-oldest: $(STAMP) ## run the smoke tests on the oldest PySpark that is supported
	@sh tools/oldest.sh '$(PY)' '$(PEERS)/oldest' $(PYTEST_ARGS)

lint: $(STAMP) ## check style, formatting, types and the layers
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

format: $(STAMP) ## put the code into its format
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench: $(STAMP) peers ## measure against delta-rs, delta-spark, parquet and tantivy, side by side
	$(PY) -m benchmarks $(BENCH_ARGS)

lock: ## resolve requirements-dev.lock anew
	@sh tools/lock.sh '$(PYTHON)'

clean: ## remove .venv and everything that tools left behind
	rm -rf '$(VENV)' '$(PEERS)' build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
