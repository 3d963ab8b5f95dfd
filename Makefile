# make demo and make test do all on a fresh machine: they make .venv and install what is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STORE ?= ./summhay-store

.PHONY: demo test test-alone test-beside check schemas soak clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

demo: $(VENV)/.installed
	$(BIN)/summhay run jobs/quickstart.yaml --store $(STORE)

# Tests that start Ray, and those that measure, run one after the other; the others take what time they leave.
test: $(VENV)/.installed
	$(MAKE) -j2 test-alone test-beside

test-alone:
	$(BIN)/python -m pytest -m "not soak and not core and (ray or not s3)" --durations=12 tests

test-beside:
	nice -n 19 $(BIN)/python -m pytest -m "not soak and (core or s3 and not ray)" -n auto tests

check: $(VENV)/.installed
	$(BIN)/ruff check summhay_ray tests cluster jobs examples
	$(BIN)/ruff format --check summhay_ray tests cluster jobs examples
	$(BIN)/mypy
	$(BIN)/python -m pytest -p no:cacheprovider tests/house

schemas: $(VENV)/.installed
	$(BIN)/python -m summhay_ray.schemas schemas

soak: $(VENV)/.installed
	$(BIN)/python -m pytest -m soak -s -o timeout=0 tests

clean:
	rm -rf $(VENV) build dist *.egg-info
