# Every target sets up what it needs. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# What a cluster needs is there, without the tools of tests; READY has it too.
CAN_RUN := $(VENV)/.runs
# The lists that are installed first, beside the product's own.
EXTRAS ?= dev
SITE := $(VENV)/.site
# Only what the lists in .ci/constraints name, each file with the hash that stands there. Our own package comes from the checkout and is
# built by what the list `build` installed, so that no build environment is filled from the index.
COMMA := ,
LISTS := .ci/constraints
PIP = $(BIN)/python -m pip --quiet --disable-pip-version-check
LOCKED = $(PIP) install --require-hashes --no-compile $(patsubst %,--requirement $(LISTS)/%.txt,$(1))
# Installs these lists and our own package, and shows every few seconds that it goes on.
define SET_UP
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "gpushare needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "setting up $(VENV): $(2) (once, about $(3))"; \
	begun=$$SECONDS; (while sleep 5; do echo "  setting up: $$((SECONDS - begun)) s"; done) & trap "kill $$! 2>/dev/null" EXIT; \
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); \
	$(call LOCKED,build); $(call LOCKED,$(1) $(COMPILER)); $(OWN); \
	$(if $(COMPILER),$(BIN)/python -m fake_nvml.native.build >/dev/null;) \
	$(BIN)/python -m compileall -q -j 0 $(VENV)/lib
endef
# The simulated cards are a library in C: on a machine without a compiler it is built here, by one that is a wheel.
COMPILER := $(if $(shell command -v cc gcc clang),,compiler)
# One after the other: an older installation of the first has a file of the second, and takes it away.
OWN = $(foreach folder,. ./fake_nvml,$(PIP) install --no-deps --no-build-isolation --no-compile --editable $(folder) &&) true
# The tests start hundreds of processes. If the environment forbids bytecode, each would compile its sources again, and each worker the tests.
unexport PYTHONDONTWRITEBYTECODE
# Programs in Go that tests start live for minutes at most: with less collecting kubectl takes a third less time, kube-apiserver a sixth.
test e2e conformance parity: export GOGC ?= 400

# Where the end-to-end cases run, and what they judge.
CLUSTER ?= embedded
TARGET ?= gpushare
# Minor of the real control plane; empty: the newest that is pinned.
KUBERNETES ?=
# How many tests run at once, each in a process and on clusters of its own; most of them wait. 0: one after the other.
# Real kubelets wait less: two of their clusters keep two cores busy, and a third only costs its own nodes.
WORKERS ?= $(if $(filter kind,$(CLUSTER)),2,4)
# A test over its time limit ends its process. pytest-xdist gives the process that replaces it no tests and waits for ever; without
# one the others finish theirs, and the run ends and says which test it was.
AT_ONCE = --numprocesses $(WORKERS) --dist loadfile --max-worker-restart 0
ON = --cluster $(CLUSTER) --target $(TARGET) $(if $(KUBERNETES),--kubernetes $(KUBERNETES)) $(if $(filter controlplane,$(CLUSTER)),--require-control-plane)

.PHONY: help demo test check fix up down e2e conformance parity control-plane kind kind-down bench load mutants generate wheels release clean-clone

# A target with `##` is for daily work, one with `#+` for CI and for rare occasions.
help: ## List the targets (MORE=1: those for rare occasions, too)
	@awk -F ':.*#[#+] ' '/^[a-z0-9-]+:.*#[#$(if $(MORE),+)] / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The list `build` has a newer pip: the one of Python 3.11 takes twice as long to find what to install. No pip compiles on more than one core.
$(CAN_RUN): pyproject.toml $(wildcard $(LISTS)/*.txt)
	$(call SET_UP,product cluster,what a cluster needs,20 seconds)
	@touch $@

$(READY): pyproject.toml $(wildcard $(LISTS)/*.txt)
	$(call SET_UP,product cluster harness $(subst $(COMMA), ,$(EXTRAS)),everything that the tests need,a minute)
	@touch $@ $(CAN_RUN)

$(SITE): $(READY)
	@$(BIN)/python -c 'import myst_parser' 2>/dev/null || $(call LOCKED,product cluster harness dev docs)
	@touch $@

demo: $(CAN_RUN) ## Run the main job: pods share cards on an embedded cluster (CLUSTER=kind: real kubelets; ARGS=--keep leaves it up)
	@$(BIN)/python -m clusters demo --provider $(CLUSTER) $(ARGS)

# These tests take every branch of the pure modules. To count branches makes tests slower by a third, so the rest runs without.
COUNTED = tests/fake_nvml tests/gpushare/model tests/gpushare/kubectl_inspect tests/gpushare/kubectl_gpushare tests/gpushare/setup tests/gpushare/deviceplugin/core \
  tests/gpushare/extender/core tests/gpushare/extender/follow tests/gpushare/extender/test_extender_metrics.py tests/gpushare/test_foreign.py
COUNT = $(BIN)/python -m pytest $(COUNTED) --cov --cov-report=term:skip-covered $(AT_ONCE)
REST = $(BIN)/python -m pytest tests e2e $(COUNTED:%=--ignore %) $(AT_ONCE) $(ON)

# Thorough and exhaustive tests are left out; QUICK=--not-exhaustive runs the thorough ones, as .ci/run does. QUICK= runs all, the comparison
# with the real control plane too, and forty bursts instead of nine.
QUICK ?= --quick
test: $(READY) $(if $(QUICK),,control-plane) ## Run the unit tests (pure modules gated at 100 % branch coverage) and the end-to-end cases (QUICK=: all of them)
	@$(if $(QUICK),,$(BIN)/python -m clusters.deploy.chart_tools)
	@$(COUNT) $(QUICK)
	@$(REST) $(if $(QUICK),--ignore e2e/parity --bursts 9 $(QUICK),--require-control-plane) $(ARGS)

CASES = e2e --ignore e2e/parity --ignore e2e/report
# With RUNS= the cases run that number of times, each time in another random order, beside a loop on each processor. The orders follow
# from SEED, else from the commit.
SEED ?= $(shell printf '%d' 0x$$(git rev-parse --short=7 HEAD))
E2E = $(BIN)/python -m pytest $(CASES) $(if $(PROFILE),--profile $(PROFILE)) $(AT_ONCE) $(ON)
define RANDOM_ORDERS
	@trap 'kill $$loops' EXIT; failed=0; loops=; for _ in $$(seq $$(nproc)); do (while kill -0 $$$$; do :; done) & loops+=" $$!"; done; \
	for run in $$(seq $(RUNS)); do \
	  echo "run $$run of $(RUNS), seed $$(($(SEED) + run))"; \
	  $(E2E) --bursts 3 --quick --seed $$(($(SEED) + run)) --burst-seed $$(($(SEED) + run)) $(ARGS) || failed=$$((failed + 1)); \
	done; echo "$$failed of $(RUNS) runs had failures"; exit $$((failed > 0))
endef
e2e: $(READY) ## Run the end-to-end cases alone: make e2e CLUSTER=embedded|controlplane|kind TARGET=gpushare KUBERNETES=1.36 (RUNS=50: in random orders)
	$(if $(RUNS),$(RANDOM_ORDERS),@$(E2E) $(ARGS))

# All profiles but OURS and CLUSTER.
conformance: PROFILE ?= conformance
conformance: $(READY) ## Judge the programs of TARGET by the promises, in two minutes; HTML, JSON and JUnit in artefacts/ (PROFILE=conformance,ours CLUSTER=)
	@$(BIN)/python -m pytest $(CASES) --profile $(PROFILE) --bursts 2 --quick --verbose --no-header --junit-xml artefacts/junit.xml $(AT_ONCE) $(ON) $(ARGS)

parity: control-plane ## Compare the embedded cluster with the real control plane (KUBERNETES=1.36)
	@$(BIN)/python -m pytest e2e/parity --require-control-plane $(AT_ONCE) $(ON) $(ARGS)

control-plane: $(READY) #+ Build etcd and the programs of Kubernetes that are missing, by Go, into the user's cache (KUBERNETES=1.36; TOOLKIT=1: NVIDIA's container toolkit, runc and containerd, too)
	@$(BIN)/python -m clusters.controlplane.build $(if $(KUBERNETES),--kubernetes $(KUBERNETES)) $(if $(TOOLKIT),--toolkit)

kind: control-plane #+ Prepare kind without an image registry: a private Docker where none answers (as root), the nodes' image and our programs' (KUBERNETES=1.36)
	@$(BIN)/python -m clusters.kind.engine up
	@$(BIN)/python -m clusters.kind.offline.node_image.build $(if $(KUBERNETES),--kubernetes $(KUBERNETES))
	@$(BIN)/python -m clusters.kind.program_images.build

kind-down: $(CAN_RUN) #+ End the private Docker unless a run of another checkout uses it, and report packets that tried to leave the machine; its images stay in the cache
	@$(BIN)/python -m clusters.kind.engine status || true
	@$(BIN)/python -m clusters.kind.engine down $(ARGS)

check: $(READY) ## Format, lint, types, import directions
	@$(BIN)/ruff format --check --quiet . || { echo "formatting differs: make fix" >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

fix: $(READY) ## Format, and fix what the linter can
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format --quiet .

up: $(CAN_RUN) ## Start a cluster in the foreground (CLUSTER=embedded|controlplane|kind ARGS="--nodes FILE --kubeconfig OUT"); Ctrl-C ends it
	@$(BIN)/python -m clusters up --provider $(CLUSTER) $(ARGS)

down: $(CAN_RUN) ## End the clusters of this checkout that are still up (ARGS=--all: the user's other checkouts' too)
	@$(BIN)/python -m clusters down $(ARGS)

BENCH ?= --quick
bench: $(READY) ## Measure the extender beside a C server that does nothing, and the device plugin with a long list (BENCH= for the full run, BENCH=--help)
	@$(BIN)/python -m load.bench $(BENCH) $(ARGS)

# The shape of the load.
LOAD ?= steady
load: $(READY) ## Play kube-scheduler in front of the extender with Locust for a minute (LOAD=curves: on 100 to 15,000 nodes; LOAD=soak: for half an hour; ARGS=--help)
	@$(BIN)/python -m load run --shape $(LOAD) $(ARGS)

mutants: $(READY) #+ Change the cores in small ways, and expect a unit test to fail for each (ARGS="gpushare.model.placement", ARGS=--fresh)
	@$(call LOCKED,product cluster harness dev mutants)
	@$(BIN)/python -m tests.mutants $(ARGS)

generate: $(SITE) #+ Regenerate the gRPC messages, the chart's templates and docs/reference.md, and build the pages in build/site; fails for a broken link
	@$(BIN)/python -m clusters.kubelet.proto.generate
	@$(BIN)/python -m clusters.deploy.chart_templates
	@$(BIN)/python docs/reference_page.py
	@rm -rf build/site; $(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -c docs . build/site
	@echo "build/site/docs/index.html"

wheels: $(READY) #+ Build the wheels into build/wheels (ARGS="--on embedded controlplane": run the sample repository from them in an empty environment)
	@$(BIN)/python -m e2e.pytest_plugin.try_wheels --wheels build/wheels $(or $(ARGS),--build-only)

# Only a release knows where its files will be, and which registry has its images.
HOMEPAGE ?= https://forge.invalid/gpushare
RELEASE = $(BIN)/python -m clusters.release
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' gpushare/__init__.py)
release: $(READY) #+ Make the files of a release (into build/release), and publish nothing (TAG=, HOMEPAGE=, REGISTRY=)
	@$(BIN)/python -m clusters.deploy.chart_tools
	@$(RELEASE) check $(if $(TAG),--tag $(TAG))
	@rm -rf build/release; $(BIN)/python -m e2e.pytest_plugin.try_wheels --wheels build/release $(ARGS)
	@$(RELEASE) wheels build/release; $(RELEASE) plugins build/release
	@$(RELEASE) krew build/release --homepage "$(HOMEPAGE)" --url "$(HOMEPAGE)/releases/download/v$(VERSION)"
	@$(RELEASE) chart build/release $(if $(REGISTRY),--registry "$(REGISTRY)")
	@$(RELEASE) checksums build/release

clean-clone: ## Clone into a temporary folder, set up, run demo and tests there
	@folder=$$(mktemp -d /tmp/gpushare-clone-XXXXXX); trap 'rm -rf "$$folder"' EXIT; \
	git clone --quiet . "$$folder/gpushare"; $(MAKE) -C "$$folder/gpushare" demo test
