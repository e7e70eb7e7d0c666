# On a fresh machine: make demo, make test. Each installs what it needs first.

PYTHON ?= python3
VENV ?= .venv
# The versions that are installed: these, the oldest in floors.txt, or, if it is empty, the
# newest.
CONSTRAINTS ?= constraints.txt
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := $(VENV)/$(SCRIPTS)
# The wheel, where it is tried out.
WHEEL_BIN := .venv-wheel/$(SCRIPTS)
# Processes that run the tests.
WORKERS ?= 2
# Threads that wait sleep, so that they take no processor from the other process.
PYTEST := OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

.PHONY: demo test unit slow test-all floors newest attack \
	install lint docs wheel check-wheel check-tag gpu-bundle clean

demo: install
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m spacy project run demo --force

# Style, types, imports and every test that is not slow: five minutes on two cores.
test: lint unit

unit: install
	$(PYTEST) -m "not slow"

# Killed runs, torchrun, whole workflows, the wheel, all of docs.
slow: install
	$(PYTEST) -m slow

test-all: test slow

# The tests that are not slow with the oldest versions that are allowed, and the newest.
floors:
	$(MAKE) unit VENV=.venv-floors CONSTRAINTS=floors.txt

newest:
	$(MAKE) unit VENV=.venv-newest CONSTRAINTS=

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
	$(BIN)/python .ci/sizes.py

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml $(CONSTRAINTS) tests/extension_package/pyproject.toml \
		setup.py $(wildcard spacy_elmo/bilm/kernels/native/*.[ch])
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet $(addprefix --constraint ,$(CONSTRAINTS)) \
		--editable ".[dev]" --editable tests/extension_package
	touch $@

# The site, in docs/_build/html; it needs no network.
docs: install
	$(BIN)/python -m sphinx -W -n -b html docs docs/_build/html

# Sdist and the wheel for this system, in dist/.
wheel: install
	rm -rf build dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

# The wheel, in an environment of its own, does what the pages for ten tasks show.
check-wheel: wheel
	$(PYTHON) -m venv --clear .venv-wheel
	$(WHEEL_BIN)/python -m pip install --quiet --constraint constraints.txt \
		"$$(ls dist/*.whl)[plot]" tests/extension_package build
	$(WHEEL_BIN)/python tests/docs/pages.py

# The tag of a release is its version.
check-tag: install
	test "$(TAG)" = "v$$($(BIN)/python -c 'import spacy_elmo; print(spacy_elmo.__version__)')"

# Wheels that a bare machine with a GPU lacks for benchmarks/gpu_first_half_hour.py.
gpu-bundle: install
	$(BIN)/python -m benchmarks.gpu.bundle

clean:
	rm -rf .venv .venv-floors .venv-newest .venv-wheel .gpu-bundle build dist *.egg-info corpus \
		training metrics docs/_build spacy_elmo/bilm/kernels/native/*.so
