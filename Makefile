# Two commands do all the set-up on a fresh machine: make demo, make test.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test install lint wheel clean

demo: install
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m spacy project run demo --force

test: install lint
	$(BIN)/python -m pytest

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

wheel: install
	$(BIN)/python -m build --wheel

clean:
	rm -rf $(VENV) build dist *.egg-info corpus training metrics
