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
test test-all e2e conformance flakes parity: export GOGC ?= 400

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

.PHONY: help demo test test-all check fix up down e2e conformance flakes parity soak soak-is-unknown control-plane chart-tools docker docker-down kind-image images fake-nvml real-nvml bench load fuzz mutants generate picture verify site wheels try-wheels release release-chart constraints clean-clone clean

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

# Thorough and exhaustive tests are left out; QUICK=--not-exhaustive runs the thorough ones, as CI does, and QUICK= all.
QUICK ?= --quick
test: $(READY) ## Run the unit tests (pure modules gated at 100 % branch coverage) and the end-to-end cases
	@$(COUNT) $(QUICK)
	@$(REST) --ignore e2e/parity --bursts 9 $(QUICK) $(ARGS)

test-all: control-plane chart-tools ## Run what `make test` leaves out as well: the comparison with the real control plane, thorough and exhaustive tests, and forty bursts instead of nine
	@$(COUNT)
	@$(REST) --require-control-plane $(ARGS)

e2e: $(READY) ## Run the end-to-end cases alone: make e2e CLUSTER=embedded|controlplane|kind TARGET=gpushare KUBERNETES=1.36
	@$(BIN)/python -m pytest e2e --ignore e2e/parity --ignore e2e/report $(AT_ONCE) $(ON) $(ARGS)

# All profiles but OURS and CLUSTER.
conformance: PROFILE ?= conformance
conformance: $(READY) ## Judge the programs of TARGET by the promises, in two minutes; HTML, JSON and JUnit in artefacts/ (PROFILE=conformance,ours CLUSTER=)
	@$(BIN)/python -m pytest e2e --ignore e2e/parity --ignore e2e/report --profile $(PROFILE) --bursts 3 --quick --verbose --no-header --junit-xml artefacts/junit.xml $(AT_ONCE) $(ON) $(ARGS)

# The seeds of the runs follow from SEED.
RUNS ?= 50
flakes: $(READY) #+ Run the end-to-end cases RUNS=50 times, each in another random order, on busy processors, and list what failed; goes on after Ctrl-C (PROFILE=, SEED=)
	@$(BIN)/python -m e2e flakes --runs $(RUNS) $(if $(SEED),--seed $(SEED)) -- e2e --ignore e2e/parity --ignore e2e/report \
	  $(if $(PROFILE),--profile $(PROFILE)) --bursts 3 --quick $(AT_ONCE) $(ON) $(ARGS)

parity: control-plane ## Compare the embedded cluster with the real control plane (KUBERNETES=1.36)
	@$(BIN)/python -m pytest e2e/parity --require-control-plane $(AT_ONCE) $(ON) $(ARGS)

# What `make soak` runs, with options that those of ARGS override.
SOAK ?= bursts
SOAK_bursts = e2e.bursts.soak --bursts 1000 --cluster $(CLUSTER) --target $(TARGET)
SOAK_chaos = pytest e2e/chaos --cluster controlplane --require-control-plane --chaos-seconds 600
SOAK_simulate = pytest e2e/explain/test_simulate.py --cluster $(CLUSTER) --target $(TARGET) --timeout 7200 --random-clusters 500
soak: $(if $(SOAK_$(SOAK)),,soak-is-unknown) $(if $(filter bursts simulate,$(SOAK)),$(READY),control-plane) #+ Play for long what the tests play for a minute: SOAK=bursts|chaos|simulate (ARGS="--bursts 200 --seed 7")
	@$(BIN)/python -m $(SOAK_$(SOAK)) $(ARGS)

soak-is-unknown:
	@echo "SOAK=$(SOAK) is none of bursts, chaos, simulate" >&2; exit 2

control-plane: $(READY) #+ Build etcd and the programs of Kubernetes that are missing, by Go, into the user's cache (KUBERNETES=1.36)
	@$(BIN)/python -m clusters.controlplane.build $(if $(KUBERNETES),--kubernetes $(KUBERNETES))

chart-tools: $(READY) #+ Build helm and kustomize for the tests of the manifests, actionlint and krew for those of releases, by Go, into the user's cache
	@$(BIN)/python -m clusters.deploy.chart_tools

docker: $(READY) #+ Start a private Docker for kind where none answers (as root; without an image registry), and build kind
	@$(BIN)/python -m clusters.kind.engine up

docker-down: $(CAN_RUN) #+ End the private Docker if no other checkout uses it, and report packets that tried to leave the machine; its images stay in the cache
	@$(BIN)/python -m clusters.kind.engine status || true
	@$(BIN)/python -m clusters.kind.engine down $(ARGS)

kind-image: docker control-plane #+ Build the image of kind's nodes without a registry (KUBERNETES=1.36)
	@$(BIN)/python -m clusters.kind.offline.node_image.build $(if $(KUBERNETES),--kubernetes $(KUBERNETES))

images: docker #+ Build the images of our programs without a registry, and the player
	@$(BIN)/python -m clusters.kind.program_images.build

fake-nvml: $(READY) #+ Build the simulated libnvidia-ml.so.1 of each driver era into the user's cache, and print where (CC=, or pip install ziglang)
	@$(BIN)/python -m fake_nvml.native.build $(ARGS)

real-nvml: $(READY) #+ Run the NVML layer on NVIDIA's own library, without a card (LIBNVIDIA_ML=PATH of a libnvidia-ml.so.1)
	@test -e "$(LIBNVIDIA_ML)" || { echo "name a real library: make real-nvml LIBNVIDIA_ML=/usr/lib/.../libnvidia-ml.so.1" >&2; exit 2; }
	@LIBNVIDIA_ML=$(LIBNVIDIA_ML) $(BIN)/python -m pytest tests/gpushare/nvml/test_real_library.py -q $(ARGS)

check: $(READY) ## Format, lint, types, import directions
	@$(BIN)/ruff format --check --quiet . || { echo "formatting differs: make fix" >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

fix: $(READY) ## Format, and mend what the linter can
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

fuzz: $(READY) #+ Feed the extender's edge with what a coverage-guided fuzzer makes, for ten minutes (ARGS="--seconds 60 --keep FOLDER")
	@$(call LOCKED,product cluster harness dev fuzz)
	@$(BIN)/python -m tests.fuzz $(ARGS)

mutants: $(READY) #+ Change the cores in small ways, and expect a unit test to fail for each (ARGS="gpushare.model.placement", ARGS=--fresh)
	@$(call LOCKED,product cluster harness dev mutants)
	@$(BIN)/python -m tests.mutants $(ARGS)

generate: $(READY) #+ Regenerate the gRPC stubs from their .proto files, the chart's templates, docs/reference.md from the code, docs/compatibility.md from kept reports
	@$(BIN)/python -m gpushare.deviceplugin.proto.generate
	@$(BIN)/python -m clusters.kubelet.proto.generate
	@$(BIN)/python -m clusters.deploy.chart_templates
	@$(BIN)/python docs/reference_page.py
	@$(BIN)/python docs/compatibility_page.py

picture: $(READY) #+ Draw docs/page.png, the picture of the README, by chromium
	@$(BIN)/python -m docs.page_picture

GENERATED = git ls-files '*_pb2.py' '*_pb2.pyi' '*_pb2_grpc.py' clusters/deploy/chart/templates docs/reference.md docs/compatibility.md | xargs sha256sum
verify: $(READY) ## Fail if a generated file is not what its source says, and write it again
	@before=$$($(GENERATED)); $(MAKE) --silent generate; diff <(echo "$$before") <($(GENERATED)) || \
	  { echo "these files were not what their sources say, and are written again: commit them" >&2; exit 1; }

site: $(SITE) #+ Build the pages as a site in build/site; a link to a page or heading that is not there fails it
	@rm -rf build/site; $(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -c docs . build/site
	@echo "build/site/docs/index.html"

wheels: $(READY) #+ Build the wheels (into build/wheels)
	@$(BIN)/python -m e2e.pytest_plugin.try_wheels --wheels build/wheels --build-only

try-wheels: $(READY) #+ Build the wheels, and run the sample repository of clusters/deploy/samples/ci from them in an empty environment (ARGS="--on embedded controlplane")
	@$(BIN)/python -m e2e.pytest_plugin.try_wheels --wheels build/wheels $(ARGS)

# Only a release knows where its files will be, and which registry has its images.
HOMEPAGE ?= https://forge.invalid/gpushare
RELEASE = $(BIN)/python -m clusters.release
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' gpushare/__init__.py)
release: $(READY) chart-tools #+ Make the files of a release (into build/release), and publish nothing (TAG=, HOMEPAGE=, REGISTRY=)
	@$(RELEASE) check $(if $(TAG),--tag $(TAG))
	@rm -rf build/release; $(BIN)/python -m e2e.pytest_plugin.try_wheels --wheels build/release $(ARGS)
	@$(RELEASE) wheels build/release; $(RELEASE) plugins build/release
	@$(RELEASE) krew build/release --homepage "$(HOMEPAGE)" --url "$(HOMEPAGE)/releases/download/v$(VERSION)"
	@$(MAKE) --silent release-chart

release-chart: $(READY) #+ Pack the chart into build/release with the images of a REGISTRY, and write the checksums (DIGESTS="--extender sha256:… --device-plugin sha256:…")
	@mkdir -p build/release
	@$(RELEASE) chart build/release $(if $(REGISTRY),--registry "$(REGISTRY)") $(DIGESTS)
	@$(RELEASE) checksums build/release

constraints: #+ Renew the lists in .ci/constraints, hashes too, with the newest versions that pyproject.toml allows (KEEP=1: with the same versions)
	@folder=$$(mktemp -d /tmp/gpushare-constraints-XXXXXX); trap 'rm -rf "$$folder"' EXIT; \
	$(PYTHON) -m venv "$$folder" && "$$folder/bin/python" -m pip install --quiet --require-hashes --requirement $(LISTS)/lock.txt && \
	KEEP=$(KEEP) UV="$$folder/bin/uv" .ci/lock

clean-clone: ## Clone into a temporary folder, set up, run demo and tests there
	@folder=$$(mktemp -d /tmp/gpushare-clone-XXXXXX); trap 'rm -rf "$$folder"' EXIT; \
	git clone --quiet . "$$folder/gpushare"; $(MAKE) -C "$$folder/gpushare" demo test

clean: #+ Remove the environment and caches
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage build dist mutants *.egg-info
