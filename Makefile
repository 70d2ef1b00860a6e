# Every target does its own set-up: a virtual environment in .venv with the pinned dependencies of constraints.txt.
PYTHON ?= $(firstword $(foreach version,3.11 3.12 3.13 3,$(shell command -v python$(version))))
BIN := .venv/bin

# "make setup TORCH=cpu" installs torch without the CUDA libraries, for training on a CPU. pip must be told of the index
# that has such builds (PIP_EXTRA_INDEX_URL); docs/faq.md says where it is. Left empty: the build that pip finds first.
TORCH ?=
TORCH_PIN := $(shell sed -n 's/^torch==//p' constraints.txt)
TORCH_BUILD := $(if $(TORCH),torch==$(TORCH_PIN)+$(TORCH))
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
READY := .venv/.ready$(if $(TORCH),-$(TORCH))
DEMO := demo-output

# The instruction set of the Android package: arm64-v8a for phones, x86_64 for an emulator.
ABI := arm64-v8a
ANDROID := PYTHONPATH=android_demo $(BIN)/python -m tools

.PHONY: setup demo results test test-all lint format clean apk test-android test-a72 fuzz

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "error: expected Python 3.11 or newer, found none" >&2; exit 1; }
	@$(PYTHON) -m venv .venv 2>/dev/null || $(MAKE) --no-print-directory venv-package
	@test -z "$(TORCH_BUILD)" || $(PIP) --dry-run --no-deps "$(TORCH_BUILD)" >/dev/null || { \
	  echo "error: TORCH=$(TORCH): expected $(TORCH_BUILD) in an index that pip knows, found none; name one by" \
	    "PIP_EXTRA_INDEX_URL (docs/faq.md), or leave TORCH out for the build with CUDA" >&2; exit 1; }
	@echo "installing the pinned dependencies into .venv (a few minutes the first time)" >&2
	$(PIP) --constraint constraints.txt $(TORCH_BUILD) --editable ".[dev]"
	@touch $@

# Debian ships the module that makes environments in a package of its own.
.PHONY: venv-package
venv-package:
	apt-get update -qq && apt-get install -y -qq python3-venv
	$(PYTHON) -m venv .venv

# The main job on the shipped model: count, compress, export, translate from the exported files. DEMO_COMPRESS has
# further options of "lite-nlp compress", such as "--finetune-steps 2" for who has no three minutes for it.
demo: $(READY)
	@sh benchmarks/demo.sh $(BIN)/lite-nlp $(DEMO) $(DEMO_COMPRESS)

# The experiments of docs/results.md, most of a day on one core; stopped, it goes on where it was. RESULTS="--only t2r"
# runs one of them; benchmarks/results.py has the other options.
results: $(READY)
	$(BIN)/python benchmarks/results.py $(RESULTS)

# A file's tests stay together: what they share, such as an exported bundle, is made once. The slow ones, those of whole
# commands, come first. One thread for each process.
test: $(READY) chromium
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

# All presets and all combinations of options too.
test-all: $(READY) chromium
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder -m ""

# A test looks at the budget's page in a browser without a window. CHROMIUM names one that is not on the path.
.PHONY: chromium
chromium:
	@sh tests/install_chromium.sh

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	cd android_demo && ../$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The Android demo, android_demo/build/lite-nlp-demo.apk. The build installs the Debian packages that it lacks (Java 17,
# Maven, npm, clang, aapt2 and the like), downloads the rest by Maven and npm, and takes no file that its lock does not
# name. ABI=x86_64 builds lite-nlp-demo-x86_64.apk.
apk: $(READY)
	$(ANDROID) apk --abi $(ABI)

# Kotlin on the Java virtual machine, the app on Robolectric, both packages with their checks, and the native libraries
# that ship, run on this machine.
test-android: $(READY)
	$(ANDROID) test

# In an emulated Cortex-A72: the Python runtime in fp32 and int8 against this machine, and the libraries for phones. Slow,
# and so apart.
test-a72: $(READY)
	$(ANDROID) test-a72

# Hostile files for every reader, in Python and in Kotlin (built as for test-android), and a comparison of their verdicts:
# five minutes. Stopped, it goes on where it was, in runs/fuzz. FUZZ="--minutes 60 --seed 2 --python-only".
fuzz: $(READY)
	$(BIN)/python -m tests.fuzz $(FUZZ)

clean:
	rm -rf .venv $(DEMO) build android_demo/build *.egg-info
