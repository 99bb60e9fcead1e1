# SPDX-License-Identifier: Apache-2.0
# Every target sets up what it needs: bare Python (3.11 or newer, with venv) and make are enough.

PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
    $$name -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.PHONY: help demo test test-matrix test-beside-jax check conformance clean

help:
	@echo "make demo             train a network on handwritten digits"
	@echo "make test             run the tests and the examples in the documentation"
	@echo "make test-matrix      run them on each Python from 3.11 up that is found here"
	@echo "make test-beside-jax  show that purax and an installed JAX leave each other alone"
	@echo "make check            format, lint, import order, types, tests, spelling"
	@echo "make conformance HARNESS=<folder> TREES=<folder>   run JAX's own tests against purax"
	@echo "make clean            remove what these targets made"

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with venv is needed: set PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/train.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[train]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/train.stamp

demo: $(VENV)/train.stamp
	$(BIN)/purax train digits

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n $(WORKERS) --doctest-modules purax tests

test-matrix:
	tools/matrix

test-beside-jax: $(VENV)-beside-jax/stamp
	$(VENV)-beside-jax/bin/python tools/beside_jax.py

$(VENV)-beside-jax/stamp: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with venv is needed: set PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)-beside-jax
	$(VENV)-beside-jax/bin/python -m pip install --quiet --disable-pip-version-check -e . 'jax>=0.10.2,<0.13'
	@touch $@

check: $(VENV)/dev.stamp
	PATH="$(abspath $(BIN)):$$PATH" tools/check

conformance: $(VENV)/dev.stamp
	@test -n "$(HARNESS)" -a -n "$(TREES)" || { echo "give HARNESS=<folder of run_peer.py> TREES=<folder of JAX's tests>"; exit 1; }
	cd $(HARNESS) && for file in tree_util_test api_test lax_autodiff_test lax_vmap_test lax_control_flow_test random_test; do \
	    $(abspath $(BIN))/python run_peer.py --trees $(abspath $(TREES)) --impl purax --pythonpath $(CURDIR) \
	        --lenient-messages --cases 1 --python $(abspath $(BIN))/python tests/$$file.py || exit 1; done

clean:
	rm -rf $(VENV) $(VENV)-* build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .purax_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
