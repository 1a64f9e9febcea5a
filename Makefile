# The README's two commands. Each makes .venv and installs what it needs, then works.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test benchmarks clean

demo: $(VENV)/.installed
	$(BIN)/regraft demo

test: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

benchmarks: $(VENV)/.installed-test
	$(BIN)/python benchmarks/run.py

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[plots]"
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[test]"
	touch $@

clean:
	rm -rf $(VENV)
