# Two commands: `make quickstart` and `make test`. Both set everything up by themselves, as root or not.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
CONSTRAINTS := constraints.txt
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: help quickstart test test-vm test-vm-if-possible lint soak bench clean
help:
	@echo "make quickstart  set up and run configs/quickstart.yaml (about two minutes)"
	@echo "make test        set up and pass the tests"
	@echo "make test-vm     the tests that ask the kernel, on cgroup v2 and netem, in a virtual machine"
	@echo "make lint        ruff, mypy, import order"
	@echo "make soak        kill something of a working node 500 times, and look for leftovers (15 minutes)"
	@echo "make bench       the benchmarks in experiments/benchmarks, or some: make bench WHAT=interventions"
	@echo "make clean       remove what these made"

quickstart: $(STAMPS)/run
	$(BIN)/insitu run configs/quickstart.yaml

test: $(STAMPS)/test browser peers
	$(BIN)/python -m pytest

# Control groups of version 2 and netem, in a virtual machine: built once into .guest, then booted.
test-vm: $(STAMPS)/test guest-tools
	$(BIN)/python -m tests.guest

test-vm-if-possible: $(STAMPS)/test guest-tools
	$(BIN)/python -m tests.guest --quick --if-possible

lint: $(STAMPS)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

soak: $(STAMPS)/test
	$(BIN)/python -m tests.recovery.soak --kills 500

bench: $(STAMPS)/bench peers
	$(BIN)/python -m experiments.benchmarks $(WHAT)

# python3 -m venv needs the ensurepip that some distributions package apart; virtualenv brings its own pip.
$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "insitu needs Python 3.11 or newer; choose one with: make $(MAKECMDGOALS) PYTHON=/path/to/python"; exit 3; }
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { rm -rf $(VENV); \
	  $(PYTHON) -m virtualenv --quiet $(VENV) 2>/dev/null || \
	  { echo "this Python has no venv; install it, e.g.: apt-get install python3-venv"; exit 3; }; }
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/run: $(STAMPS)/venv pyproject.toml $(CONSTRAINTS)
	@echo "installing insitu into $(VENV)"
	@$(PIP) install --constraint $(CONSTRAINTS) --editable .
	@touch $@

$(STAMPS)/test: $(STAMPS)/run
	@echo "installing what the tests need"
	@$(PIP) install --constraint $(CONSTRAINTS) --editable '.[test]'
	@touch $@

$(STAMPS)/bench: $(STAMPS)/run
	@$(PIP) install --constraint $(CONSTRAINTS) --editable '.[bench]'
	@touch $@

# The report's test opens it in a real browser. Only root can install one; without it that test says so.
.PHONY: browser
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
	 command -v google-chrome >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
	 { echo "installing chromium for the report's test"; \
	   apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; }

# What benchmarks are held against and pip does not have. Without it, its row and its tests say so.
.PHONY: peers
peers:
	@command -v stress-ng >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
	 { echo "installing stress-ng, which the benchmarks are held against"; \
	   apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	   apt-get install -y -qq --no-install-recommends stress-ng >/dev/null; } || true

# Only root can install what boots and builds the guest; without it, test-vm says what is missing.
.PHONY: guest-tools
guest-tools:
	@{ command -v qemu-system-x86_64 && PATH="$$PATH:/usr/sbin" command -v debootstrap; } >/dev/null || \
	 [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
	 { echo "installing qemu-system-x86 and debootstrap for the tests in a virtual machine"; \
	   apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	   apt-get install -y -qq --no-install-recommends qemu-system-x86 debootstrap >/dev/null; } || true

clean:
	rm -rf .guest $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
