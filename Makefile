# Every target has one line of help; `make` alone lists them.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.gpuready-ready
CLUSTER ?= gpuready
FILE ?= examples/cluster-demo.yaml
NODES ?= 100,1000,5000
IMAGE ?= gpuready
ENGINE ?= podman
IMAGE_PYTHON ?= 3.13
IMAGE_ARCH ?= $(shell uname -m)
# A simulated cluster is many short programs: each would compile all its modules again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-node kubernetes containerd conformance e2e soak check bench bench-scale wheels image image-bases sim down format stubs crds chart requirements picture clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv with everything: the product, the simulator, the tests' tools

$(STAMP): pyproject.toml requirements/dev.txt build_native.py $(wildcard src/gpuready/native/*.c src/gpuready/native/*.h src/gpuready/native/build.py src/gpuready_sim/nvml/*.c src/gpuready_sim/nvml/*.h src/gpuready_sim/nvml/build.py src/gpuready_sim/dcgm/*.c src/gpuready_sim/dcgm/*.h)
	@command -v $(PYTHON) >/dev/null || { echo "gpuready needs Python 3.11 or newer; '$(PYTHON)' was not found. Next: install it, or name one: make setup PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "gpuready needs Python 3.11 or newer; '$(PYTHON)' is older. Next: make setup PYTHON=python3.11"; exit 1; }
	@command -v $${CC:-cc} >/dev/null || { echo "gpuready's simulator needs a C compiler; '$${CC:-cc}' was not found. Next: install gcc or clang, or set CC"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup ## the main job on a simulated cluster, start to finish (under 2 minutes)
	$(BIN)/gpuready-sim demo

test: setup ## unit and simulator tests (under 5 minutes; four at once, for they mostly wait)
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

containerd: setup ## fetch the containerds of Debian 12 and 13 for `make test-node` (needs apt; installs nothing)
	$(BIN)/python -m tests.node.fetch_containerd

test-node: setup ## what needs real tools of a node or of its surroundings; skipped with a reason where they are absent
	$(BIN)/python -m pytest tests/node -rs

kubernetes: setup ## build real Kubernetes and etcd from their Go modules, outside the tree (needs Go; 12 minutes once)
	$(BIN)/python -m gpuready_sim.kubernetes.build

clients: setup ## fetch kubectl and helm, new and old, outside the tree (for `make conformance`)
	$(BIN)/python -m gpuready_sim.kubernetes.clients

conformance: setup ## the same expectations of the simulator's API server and of the real one (after `make kubernetes`)
	$(BIN)/python -m pytest tests/conformance -rs -n 2 --dist loadgroup

e2e: setup ## one GPU end to end on a real node: kubelet, containerd, runc (after `make kubernetes`; needs root)
	$(BIN)/python -m pytest tests/e2e -rs

soak: setup ## kill-anywhere rounds and long streams, SOAK_S=180 seconds of them; SOAK_SEED tells a story again
	$(BIN)/python -m pytest tests/soak -rs --capture=no

check: setup ## lint, format, types, imports, generated files up to date
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m gpuready.protos.generate --check
	$(BIN)/python -m gpuready.api.crd --check
	$(BIN)/python charts/generate.py --check
	$(BIN)/python images/requirements.py --check

bench: setup ## measure what DESIGN promises: ready time, allocation latency, memory, writes
	$(BIN)/python -m benchmarks

bench-scale: setup ## the operator on NODES=100,1000,5000, beside the original where GPUREADY_BENCH_PEER names it (BENCH=--full)
	$(BIN)/python -m benchmarks scale --nodes $(NODES) $(BENCH)

wheels: setup ## fetch the packages of the image, so that its build needs no index (IMAGE_PYTHON=3.13)
	rm -rf build/wheels
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --dest build/wheels --no-deps --require-hashes \
		--only-binary :all: --implementation cp --python-version $(IMAGE_PYTHON) --abi cp$(subst .,,$(IMAGE_PYTHON)) \
		--abi abi3 --abi none --platform manylinux_2_28_$(IMAGE_ARCH) --platform manylinux_2_17_$(IMAGE_ARCH) \
		--platform manylinux2014_$(IMAGE_ARCH) --requirement requirements/runtime.txt

image: ## build images/Containerfile (IMAGE=gpuready ENGINE=podman; docs/guides/image.md)
	$(ENGINE) build --file images/Containerfile --tag $(IMAGE) $(IMAGE_OPTIONS) .

image-bases: setup ## make the image's base images of Debian's packages, where no registry is reached (tests; needs root)
	$(BIN)/python -m tests.node.fetch_base_images

sim: setup ## start a simulated cluster in the foreground (CLUSTER=name FILE=cluster.yaml)
	$(BIN)/gpuready-sim up --name $(CLUSTER) --file $(FILE)

down: ## stop the simulated cluster (CLUSTER=name)
	$(BIN)/gpuready-sim down --name $(CLUSTER)

format: setup ## format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

stubs: setup ## regenerate the gRPC stubs from the .proto files
	$(BIN)/python -m gpuready.protos.generate

crds: setup ## regenerate the CRD YAML from the models, and the chart's copies
	$(BIN)/python -m gpuready.api.crd
	$(BIN)/python charts/generate.py

chart: setup ## regenerate what the chart takes from the product: CRDs, rules, the schema of its values
	$(BIN)/python charts/generate.py

requirements: ## export the hashed requirements (needs uv)
	uv export --quiet --no-emit-project --all-extras --no-header --format requirements-txt --output-file requirements/dev.txt
	@rm -f uv.lock
	$(PYTHON) images/requirements.py

picture: setup ## redraw the README's picture from a run of the demo
	$(BIN)/gpuready-sim demo --picture docs/demo.svg

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) build dist src/gpuready/_native src/gpuready_sim/_native .mypy_cache .ruff_cache .pytest_cache .hypothesis
