# Each target does its own set-up: a virtual environment in $(VENV), and system packages where a target needs them.
#
#   PYTHON=python3.12   the interpreter to make the virtual environment with (`make clean` first if there is one already)
#   VENV=/tmp/venv      where the virtual environment is
#   ARGS="-k publish"   more arguments for the program that `test`, `bench`, `reproduce`, `fuzz` or `soak` runs

PYTHON ?= python3
VENV ?= .venv
ARGS ?=

BIN := $(VENV)/bin
SETUP := scripts/setup-venv "$(PYTHON)" "$(VENV)"
CEL := var/cel/package

# Debian keeps mosquitto in /usr/sbin, which is not on everybody's path.
export PATH := $(PATH):/usr/sbin
# Many processes are started: each would compile all sources again where the environment says to keep nothing of it.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test pipeline lint format types imports docs bench reproduce fuzz soak cluster cel xacml clean test-tools java

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.ready-pipeline $(VENV)/.ready-clients java ## one node, a smart home, a supply chain, a factory, security zones, a federation with trust, an asthma traveller with contracts; then what was recorded, on Spark: an account of what happened
	$(BIN)/python examples/one-node/demo.py
	$(BIN)/python examples/smart-home/play.py
	$(BIN)/python examples/supply-chain/reports.py
	$(BIN)/python examples/factory/shift.py
	$(BIN)/python examples/zones/day.py
	$(BIN)/python examples/federation/week.py
	$(BIN)/python examples/free-air/walk.py
	$(BIN)/python examples/smart-home/looking_back.py

test: test-tools $(VENV)/.ready-clients lint types imports ## every check and every test
	$(BIN)/python -m pytest -n 3 --no-loadscope-reorder -m "not recorded and not cluster" $(ARGS)

pipeline: $(VENV)/.ready-bench test-tools ## the tests that govern whole journals on Spark: minutes
	$(BIN)/python -m pytest -m recorded $(ARGS)

lint: $(VENV)/.ready-dev ## style: ruff, rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.ready-dev ## rewrite the sources as `lint` wants them, and tables, pages of reference and pictures as the code is
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python -m scripts.settings_table
	$(BIN)/python -m scripts.reference
	$(BIN)/python -m scripts.architecture

types: $(VENV)/.ready-dev ## types: mypy, strict
	$(BIN)/mypy

imports: $(VENV)/.ready-dev ## dependencies between folders point downwards only: import-linter
	$(BIN)/lint-imports

docs: $(VENV)/.ready-dev ## the pages as a site in build/site, every link checked
	$(BIN)/python -m sphinx -q -W --keep-going -d build/pages -c docs . build/site

bench: $(VENV)/.ready-bench test-tools ## the node beside Mosquitto and amqtt: processor time, throughput, latency; then matching by content, the journal, views on Spark
	$(BIN)/python -m benchmarks $(ARGS)

reproduce: $(VENV)/.ready-bench test-tools ## the experiments of the papers again, with figures in var/bench (about an hour)
	$(BIN)/python -m benchmarks.reproduce $(ARGS)

fuzz: $(VENV)/.ready-dev ## the tests with random input, with many more examples than `test` takes
	HYPOTHESIS_PROFILE=long $(BIN)/python -m pytest -m "hypothesis or fuzz" $(ARGS)

soak: $(VENV)/.ready-dev test-tools ## the tests of load and of kill -9, for longer than `test` does
	PENSTOCK_SOAK=1 $(BIN)/python -m pytest -m soak $(ARGS)

cluster: $(VENV)/.ready-dev test-tools ## jobs on a standalone Spark cluster, a worker lost, streams killed often (about ten minutes)
	$(BIN)/python -m pytest -m cluster $(ARGS)

cel: $(VENV)/.ready-dev $(CEL) ## CEL's own conformance cases on our evaluators; npm fetches them
	$(BIN)/python -m tests.conformance.cel $(CEL)

xacml: $(VENV)/.ready-dev ## the public XACML conformance cases in DIR, if you have them
	$(BIN)/penstock xacml conformance "$(DIR)"

clean: ## remove the virtual environment and everything made here
	rm -rf "$(VENV)" build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(CEL):
	@command -v npm >/dev/null && command -v node >/dev/null || \
	  { echo "penstock: CEL's cases come as an npm package: install npm and node, then run make again" >&2; exit 1; }
	mkdir -p $(@D)
	cd $(@D) && npm pack --silent @bufbuild/cel-spec@0.6.1 && tar xzf bufbuild-cel-spec-0.6.1.tgz
	touch $@

java:
	@scripts/need java:default-jre-headless

test-tools:
	@scripts/need mosquitto:mosquitto mosquitto_pub:mosquitto-clients openssl:openssl curl:curl java:default-jre-headless chromium:chromium

# One mark for each set of dependencies, each on top of the one before, so that `make -j demo test` sets up in order.
$(VENV)/.ready-run: pyproject.toml scripts/setup-venv
	$(SETUP) run
$(VENV)/.ready-clients: scripts/setup-venv | $(VENV)/.ready-run
	$(SETUP) clients
$(VENV)/.ready-pipeline: $(VENV)/.ready-run
	$(SETUP) pipeline
$(VENV)/.ready-dev: $(VENV)/.ready-pipeline
	$(SETUP) dev
$(VENV)/.ready-bench: $(VENV)/.ready-dev
	$(SETUP) bench
