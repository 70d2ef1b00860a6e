# Every target does its own set-up: a virtual environment in .venv with the pinned dependencies of constraints.txt.
PYTHON ?= $(firstword $(foreach version,3.11 3.12 3.13 3,$(shell command -v python$(version))))
BIN := .venv/bin
READY := .venv/.ready
DEMO := demo-output

.PHONY: setup demo results test lint format clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "error: expected Python 3.11 or newer, found none" >&2; exit 1; }
	@$(PYTHON) -m venv .venv 2>/dev/null || $(MAKE) --no-print-directory venv-package
	@echo "installing the pinned dependencies into .venv (a few minutes the first time)" >&2
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	@touch $@

# Debian ships the module that makes environments in a package of its own.
.PHONY: venv-package
venv-package:
	apt-get update -qq && apt-get install -y -qq python3-venv
	$(PYTHON) -m venv .venv

# The main job on the shipped model: count, compress, export, translate from the exported files.
demo: $(READY)
	@sh benchmarks/demo.sh $(BIN)/lite-nlp $(DEMO)

# The experiments of docs/results.md, most of a day on one core; stopped, it goes on where it was. RESULTS="--only t2r"
# runs one of them; benchmarks/results.py has the other options.
results: $(READY)
	$(BIN)/python benchmarks/results.py $(RESULTS)

# A file's tests stay together: what they share, such as an exported bundle, is made once. The slow ones, those of whole
# commands, come first. One thread for each process.
test: $(READY) chromium
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

# A test looks at the budget's page in a browser without a window. CHROMIUM names one that is not on the path.
.PHONY: chromium
chromium:
	@sh tests/install_chromium.sh

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv $(DEMO) build *.egg-info
