# SPDX-License-Identifier: Apache-2.0
# Every target sets up what it needs: bare Python (3.11 or newer, with venv) and make are enough.

PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
    $$name -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.PHONY: help setup demo test test-matrix test-beside-jax check conformance clean

help:
	@echo "make demo             train a network on handwritten digits"
	@echo "make setup            make .venv with all that development needs"
	@echo "make test             run the tests and the examples in the documentation"
	@echo "make test-matrix      run them on each Python from 3.11 up that is found here"
	@echo "make test-beside-jax  show that purax and an installed JAX leave each other alone"
	@echo "make check            format, lint, import order, types, tests, spelling"
	@echo "make conformance HARNESS=<folder> TREES=<folder>   run JAX's own tests against purax (TIER=, AREA=, FILES=)"
	@echo "make clean            remove what these targets made"
	@echo "Settings: PYTHON=<python>, VENV=<folder> (.venv), WORKERS=<number of processes for tests> (2)"

# A path, not a finder: so that scripts beside the clone find the package and not the folder of the same name.
EDITABLE := --config-settings editable_mode=compat

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with venv is needed: set PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/train.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(EDITABLE) -e '.[train]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(EDITABLE) -e '.[dev]'
	@touch $@ $(VENV)/train.stamp

demo: $(VENV)/train.stamp
	$(BIN)/purax train digits

setup: $(VENV)/dev.stamp

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n $(WORKERS) --doctest-modules purax tests

test-matrix:
	tools/matrix

test-beside-jax: $(VENV)-beside-jax/stamp
	$(VENV)-beside-jax/bin/python tools/beside_jax.py

$(VENV)-beside-jax/stamp: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with venv is needed: set PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)-beside-jax
	$(VENV)-beside-jax/bin/python -m pip install --quiet --disable-pip-version-check $(EDITABLE) -e . 'jax>=0.10.2,<0.13'
	@touch $@

check: $(VENV)/dev.stamp
	PATH="$(abspath $(BIN)):$$PATH" tools/check

# What is run: files of JAX's tree by default, whole tiers (A, B, C) or areas (numpy, linalg, ...) of the harness's list if they are given.
TIER ?=
AREA ?=
FILES ?= $(if $(TIER)$(AREA),,$(patsubst %,tests/%_test.py,tree_util api lax_autodiff lax_vmap lax_control_flow random))
CASES ?= 1
MINUTES ?= 30

conformance: $(VENV)-conformance/stamp
	@test -n "$(HARNESS)" -a -n "$(TREES)" || { echo "give HARNESS=<folder of run_peer.py> TREES=<folder of the libraries' tests>"; exit 1; }
	@mkdir -p build
	-cd $(HARNESS) && PYTHONDONTWRITEBYTECODE=1 $(CURDIR)/$(VENV)-conformance/bin/python run_peer.py \
	    --trees $(abspath $(TREES)) --impl purax --pythonpath $(CURDIR) --lenient-messages --cases $(CASES) --file-minutes $(MINUTES) \
	    $(TIER:%=--tier %) $(AREA:%=--area %) --out $(CURDIR)/build/conformance.json $(FILES)
	$(VENV)-conformance/bin/python tools/conformance.py build/conformance.json --write

$(VENV)-conformance/stamp: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with venv is needed: set PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)-conformance
	$(VENV)-conformance/bin/python -m pip install --quiet --disable-pip-version-check $(EDITABLE) -e '.[dev]' \
	    'pytest<9' pytest-timeout pytest-json-report absl-py cloudpickle ndindex
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-* build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .purax_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
