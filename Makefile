# Two commands need nothing before them: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint bench docs clean

demo: $(READY)
	$(BIN)/divulge demo

test: lint
	@tests/ensure-browser
	$(BIN)/pytest

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python bench/hyperparameters.py

# The parts of the documentation that the program writes, and the picture in the README.
docs: $(READY)
	@tests/ensure-browser
	$(BIN)/python scripts/make_docs.py

clean:
	rm -rf $(VENV) runs

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[all]'
	touch $@
