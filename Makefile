# make demo and make test do all on a fresh machine: they make .venv and install what is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STORE ?= ./summhay-store
TORCH ?= 2.13.0
comma := ,

# Compiled modules are kept where an image says otherwise: a run is several processes, a test run hundreds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check check-code check-house schemas docs lock newest soak browsers clean

# What nearly each run and each test imports is compiled at once, on all processors; the rest when it is first imported, by whoever
# imports it. All of it would take a minute and a half of a processor, and runs import a quarter.
EARLY := polars numpy pydantic pydantic_core aiohttp boto3 botocore rich typer click yaml anyio httpx urllib3 requests markdown_it \
  cryptography attr google/protobuf ray/_common ray/_private ray/core ray/util hypothesis _pytest

# What is installed is locked with hashes in requirements/; torch is not, since its build differs by machine.
# uv installs in a fifth of pip's time; pip takes over where packages come by settings of pip's own.
define packages
$(BIN)/uv pip install --quiet --python $(BIN)/python $(PIP_FIND_LINKS:%=--find-links %) $(1) \
  || $(BIN)/python -m pip install --quiet --no-compile $(1)
endef

# $(1): the lock of requirements/ to install, and the project with it.
define install
$(PYTHON) -m venv $(VENV)
$(BIN)/python -m pip install --quiet --require-hashes -r requirements/build.lock
$(call packages,--no-deps --require-hashes --no-build-isolation -r requirements/$(1).lock)
$(call packages,--no-deps --no-build-isolation --editable .)
$(BIN)/python -m compileall -qq -j 0 -x '/tests?/' $(EARLY:%=$(VENV)/lib/python3*/site-packages/%) summhay_ray || true
endef

# What runs need, and no more: no torch, no test tools.
$(VENV)/.core: pyproject.toml requirements/build.lock requirements/core.lock
	$(call install,core)
	touch $@

# All that the gates need: they begin while torch, the largest package, is being installed.
$(VENV)/.gates: pyproject.toml $(wildcard requirements/*.lock)
	$(call install,dev)
	touch $(VENV)/.core $@

$(VENV)/.installed: $(VENV)/.gates
	$(call packages,torch==$(TORCH))
	$(BIN)/python -m compileall -qq -j 0 tests tools || true
	touch $@

# The newest versions that pyproject.toml allows, into requirements/. What torch needs for GPUs comes with torch.
NO_GPU := cuda-bindings cuda-toolkit nvidia-cudnn-cu13 nvidia-cusparselt-cu13 nvidia-nccl-cu13 nvidia-nvshmem-cu13 triton
# pyobsplot is here for the script that the report page copies, not for notebooks.
NO_NOTEBOOK := anywidget
LOCK = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
  --custom-compile-command "make lock" --no-emit-package torch --excludes $(VENV)/left-out.txt
lock: $(VENV)/.installed
	printf '%s\n' $(NO_GPU) $(NO_NOTEBOOK) > $(VENV)/left-out.txt
	$(LOCK) pyproject.toml --extra dev --extra embed --extra documents --extra docs --output-file requirements/dev.lock
	$(LOCK) pyproject.toml --extra embed --constraints requirements/dev.lock --output-file requirements/image.lock
	$(LOCK) pyproject.toml --constraints requirements/dev.lock --output-file requirements/core.lock
	printf 'setuptools\nuv\n' | $(LOCK) - --constraints requirements/dev.lock --output-file requirements/build.lock

# Gates and tests with the newest packages in place of the locked ones.
newest:
	$(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet --upgrade uv
	.venv-newest/bin/uv pip install --quiet --python .venv-newest/bin/python $(PIP_FIND_LINKS:%=--find-links %) \
	  --upgrade torch==$(TORCH) --editable ".[dev,embed,documents,docs]"
	touch .venv-newest/.core .venv-newest/.gates .venv-newest/.installed
	$(MAKE) VENV=.venv-newest check test

demo: $(VENV)/.core
	$(BIN)/summhay run jobs/quickstart.yaml --store $(STORE)

# Several at once: many wait for a clock, a process or a network. `make soak` runs what takes longer, `make browsers` what opens a browser.
# Rewriting the asserts of all files would take each worker some ten seconds: what failed is run once more, to show the values.
QUICK := -m "not soak and not browser" --dist loadgroup tests --ignore tests/house
test: $(VENV)/.installed
	$(BIN)/python -m pytest $(QUICK) --assert=plain -n auto --no-loadscope-reorder --durations=15 \
	  || { $(BIN)/python -m pytest $(QUICK) --last-failed --last-failed-no-failures none -n 1; exit 1; }

check: $(VENV)/.gates
	$(MAKE) -j2 check-code check-house

check-code:
	$(BIN)/ruff check summhay_ray tests tools cluster jobs examples
	$(BIN)/ruff format --check summhay_ray tests tools cluster jobs examples
	$(BIN)/mypy

check-house:
	$(BIN)/python -m pytest -p no:cacheprovider tests/house

# What is generated from the code and committed: schemas/, and the pages of docs/reference/ that say so.
schemas: $(VENV)/.gates
	$(BIN)/python -m summhay_ray.schemas schemas
	$(BIN)/python tools/reference.py docs/reference

# A site of docs/ in build/site, without the network.
docs: $(VENV)/.core
	$(BIN)/python tools/reference.py docs/reference
	$(call packages,--constraints requirements/dev.lock --editable ".[docs]")
	$(BIN)/mkdocs build --strict
	@echo "The site is build/site/index.html; open it in a browser."

soak: $(VENV)/.installed
	$(BIN)/python -m pytest -m soak -s -o timeout=0 tests
	$(BIN)/python -m pytest -m "hypothesis and not soak and not browser" --hypothesis-profile=thorough -o timeout=0 tests

# The browser tests drive Debian's own Chromium: nothing else is downloaded.
browsers: $(VENV)/.installed
	command -v chromium >/dev/null || { apt-get update && apt-get install --yes --no-install-recommends chromium; }
	$(BIN)/python -m pytest -m "browser and not soak" tests

clean:
	rm -rf $(VENV) .venv-newest build dist *.egg-info
