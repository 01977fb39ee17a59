# Two commands need nothing before them: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Side by side, with one thread each: threads of several processes on the same cores only wait for each other.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(BIN)/pytest --numprocesses auto --dist worksteal

.PHONY: demo test test-servers check lint bench docs clean

demo: $(READY)
	$(BIN)/divulge demo

# Everything, with the share of the code that the tests run.
test: lint
	@tests/ensure-browser
	$(PYTEST) --cov --cov-report=term:skip-covered

# Audits of real inference servers, each in an environment of its own (1.6 GB together, the first time).
SERVERS := bentoml kserve litserve mlflow
test-servers: $(READY) $(SERVERS:%=.servers/%/.ready)
	DIVULGE_SERVERS=$(CURDIR)/.servers $(PYTEST) -m servers tests/servers

# For every commit: lint, types, layers, and the tests that take no longer than a breath.
check: lint
	$(PYTEST) -m "not slow and not browser"

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# All benchmarks one after the other, or one: `make bench NAME=hypergradient`.
bench: $(READY)
	@for script in $(if $(NAME),bench/$(NAME).py,bench/*.py); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

# The parts of the documentation that the program writes, and the picture in the README.
docs: $(READY)
	@tests/ensure-browser
	$(BIN)/python scripts/make_docs.py

clean:
	rm -rf $(VENV) .servers runs

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[all]'
	touch $@

.servers/%/.ready: tests/servers/%/requirements.txt
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	touch $@
