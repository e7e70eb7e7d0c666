# On a fresh machine: make demo, make test. Each installs what it needs first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Processes that run the tests, with a thread each.
WORKERS ?= 2
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

.PHONY: demo test test-all attack install lint docs wheel clean

demo: install
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m spacy project run demo --force

# Style, types, imports and every test that is not slow: under five minutes on two cores.
test: install lint
	$(PYTEST) -m "not slow"

# And the slow ones: killed runs, torchrun, whole workflows, the wheel.
test-all: test
	$(PYTEST) -m slow

# All attacks (attacks/README.md), for so many minutes together.
MINUTES ?= 10
SEED ?= 0
attack: install
	OMP_NUM_THREADS=1 $(BIN)/python -m attacks all --minutes $(MINUTES) --seed $(SEED)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt tests/extension_package/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt \
		--editable ".[dev]" --editable tests/extension_package
	touch $@

# The site, in docs/_build/html; it needs no network.
docs: install
	$(BIN)/python -m sphinx -W -n -b html docs docs/_build/html

wheel: install
	$(BIN)/python -m build --wheel

clean:
	rm -rf $(VENV) build dist *.egg-info corpus training metrics docs/_build
