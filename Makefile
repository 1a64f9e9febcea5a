# The README's commands. Each makes .venv and installs what it needs, then works.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Python compiles a module when it is first imported, which is a fraction of all that pip would.
export PYTHONDONTWRITEBYTECODE :=
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile
# Two processes; each takes neighbouring tests, which share what is made once for a module.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

.PHONY: install demo test quick attack lint types docs build benchmarks notebooks clean

install: $(VENV)/.installed

demo: install
	$(BIN)/regraft demo --html

# All that CI checks: mypy beside the tests, and among the tests an installation without extras.
test: lint
	@$(BIN)/mypy > $(VENV)/mypy.log 2>&1 & types=$$!; \
	$(PYTEST) --minimal=$(VENV)-minimal; tests=$$?; \
	wait $$types || { cat $(VENV)/mypy.log; exit 1; }; exit $$tests

# Leave out the slow tests and the second installation.
quick: $(VENV)/.installed-test
	$(PYTEST) -m "not slow"

# Fuzzed inputs, damaged files, kills and random problems, by seed; docs/attacks.md has the outcomes.
N ?= 1000
attack: $(VENV)/.installed-test
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/attacks --attack-number $(N) -rP

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-test
	$(BIN)/mypy

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The files for the package index, in dist/.
build: $(VENV)/.installed-build
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

benchmarks: $(VENV)/.installed-test
	$(BIN)/python benchmarks/run.py

# gallery/*.ipynb from the scripts.
notebooks: $(VENV)/.installed-test
	$(BIN)/python benchmarks/notebooks.py

$(VENV):
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)
	$(PIP) -e ".[parquet,plots,report]"
	touch $@

# The extra test holds all others that a user or the documentation needs.
$(VENV)/.installed-test: pyproject.toml | $(VENV)
	$(PIP) -e ".[test]"
	touch $@ $(VENV)/.installed $(VENV)/.installed-docs

$(VENV)/.installed-docs: pyproject.toml | $(VENV)
	$(PIP) -e ".[docs]"
	touch $@

$(VENV)/.installed-build: | $(VENV)
	$(PIP) build twine
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-minimal dist
