# Everything starts here. Each target does its own set-up; `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.ONESHELL:
.SHELLFLAGS := -euo pipefail -c
.PHONY: help setup check format lock test test-unit test-lowest test-changed test-integration test-e2e fuzz lab demo demo-cluster catalog-check peer-check docs docs-serve docs-check diagrams demo-record package release-check clean
python := .venv/bin/python
stage = scripts/stage
EXAMPLES ?= 20000
DRY_RUN ?=
NAMES ?=
# Files side by side, each with machines and ports of its own. Emulated machines compute: as many as there are cores here.
# The longest come first (tests/e2e/conftest.py), so that what comes last is short. Tests against servers on this host wait more than they
# compute: one more. Their files in order, so that those of one folder, which share a control plane, follow each other.
# `make test` runs both at the same time: they fill each other's gaps.
files = $(python) -m pytest --dist loadfile --no-loadscope-reorder
e2e = $(files) --numprocesses 2
integration = $(files)
side_by_side = $(python) -m tests.side_by_side
unit = $(python) -m pytest --numprocesses 2 tests/unit

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Install what a clone needs: Debian packages of the host, and .venv from the lock
	@scripts/setup

check: setup ## Format, lint, types, import contracts, lock and generated files: quick
	@scripts/check

format: setup ## Format the code, and fix what the linter can
	@.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

lock: setup ## Write the locks again from pyproject.toml (scripts/lock --upgrade takes newer versions)
	@scripts/lock

test: setup ## All tests, with the lab they need (an hour the first time, then about 35 minutes)
	@$(stage) lab $(python) -m lab build
	$(stage) unit $(unit)
	$(side_by_side) e2e $(e2e) tests/e2e -- integration $(integration) --numprocesses 2 tests/integration

test-unit: setup ## Tests that need only Python: a minute or two
	@$(stage) unit $(unit)

test-lowest: setup ## The unit tests with the lowest versions that pyproject.toml allows
	@$(stage) "lowest versions" scripts/check-lowest

test-changed: setup ## Unit tests, and of the others those that need what changed since main, or BASE=…; DRY_RUN=1 only lists them
	@chosen=$$($(python) -m tests.changed --base '$(BASE)')
	[ -z '$(DRY_RUN)' ] || exit 0
	$(stage) unit $(unit)
	[ -z "$$chosen" ] || $(stage) "integration and e2e" $(e2e) $$chosen

test-integration: setup ## Tests against real control planes, registries and container runtimes on this host
	@$(stage) integration $(integration) --numprocesses 3 tests/integration

test-e2e: setup ## Tests in the lab's machine, on a real sched_ext kernel
	@$(stage) e2e $(e2e) tests/e2e

fuzz: setup ## Malformed policies, manifests, bundles and payloads, for longer than the tests do: EXAMPLES=20000
	@SCHEDKIT_FUZZ_EXAMPLES=$(EXAMPLES) $(stage) fuzz $(python) -m pytest tests/unit/trust/test_fuzz.py tests/unit/trust/test_plain_yaml.py

lab: setup ## Build everything the lab is made of
	@$(stage) lab $(python) -m lab build

demo: setup ## Boot a machine with sched_ext and watch schedctl at work (KERNEL=newest: the part that needs no compiling)
	@$(python) -m lab.demo $(if $(KERNEL),--kernel '$(KERNEL)')

demo-cluster: setup ## Deploy sked to a cluster with a real sched_ext node, and watch it work
	@$(python) -m lab.demo_cluster

docs: setup ## Build the documentation site into build/site/html; a broken link is an error
	@scripts/docs build

docs-serve: setup ## Show the documentation site at http://localhost:8000, as you write
	@scripts/docs serve

docs-check: docs ## Open the built site in chromium (apt-get install chromium): no errors, search, narrow, dark; screenshots
	@scripts/docs check

diagrams: setup ## Draw the pictures in docs/images again (apt-get install graphviz)
	@$(python) -m website diagrams

demo-record: setup ## Run both demos and draw them as docs/images/demo.svg and demo-cluster.svg; keep what pages show in website/recordings
	@$(python) -m website.recording docs/images/demo.svg $(python) -m lab.demo --kernel 6.12
	$(python) -m website.recording docs/images/demo-cluster.svg $(python) -m lab.demo_cluster
	for scene in boot nodes rollouts; do $(python) -m website.recording "website/recordings/$$scene.txt" $(python) -m lab.pages "$$scene"; done

catalog-check: setup ## Build every scheduler of the catalog from its crate, run it on kernel 6.12, and write docs/schedctl/schedulers.md (NAMES="scx_rusty …" for some)
	@$(stage) "catalog check" $(python) -m lab.catalog_check $(NAMES)

peer-check: setup ## Build scx_loader from its crate, run it on kernel 6.12 with systemd and D-Bus, and try `schedctl import scx_loader` on it
	@$(stage) "peer check" $(python) -m lab.peer_check

package: setup ## Build a release of this commit into dist/: wheel, source, .deb, operator's image, chart, install.yaml (IMG=… names the image; ARCHITECTURES=amd64 leaves arm64 out)
	@$(stage) package $(python) -m release package $(if $(filter-out file,$(origin IMG)),--image '$(IMG)') $(ARCHITECTURES:%=--architecture %)

release-check: setup ## Install what is in dist/ into clean Debian roots and on a machine, run it, remove it; build it again elsewhere and compare
	@$(stage) "release check" $(python) -m release check $(if $(filter-out file,$(origin IMG)),--image '$(IMG)')

clean: ## Delete what was made in this clone (the lab's cache stays: `python -m lab prune --all`)
	@rm -rf .venv .venv-lowest .venv-docs dist build .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the operator: its image, and into the cluster of the current kubeconfig -------------------------------------------------
.PHONY: manifests run docker-build docker-push docker-buildx install uninstall deploy undeploy build-installer
IMG ?= controller:latest
CONTAINER_TOOL ?= docker
KUBECTL ?= kubectl
BASE ?=
PLATFORMS ?= linux/arm64,linux/amd64
ARGS ?=
ignore-not-found ?= false
deploy = IMG='$(IMG)' KUBECTL='$(KUBECTL)' IGNORE_NOT_FOUND='$(ignore-not-found)' scripts/deploy
image = IMG='$(IMG)' CONTAINER_TOOL='$(CONTAINER_TOOL)' BASE='$(BASE)' PLATFORMS='$(PLATFORMS)' scripts/image

manifests: setup ## Write the CRDs and their reference again from the types
	@$(python) -m schedkit.sked.api.generate

run: setup ## Run the operator on this host, with the current kubeconfig (ARGS="--log-level=debug" adds options)
	@exec .venv/bin/sked manager $(ARGS)

docker-build: ## Build the operator's image: IMG=…, CONTAINER_TOOL=docker|podman, BASE=… for another Python image
	@$(image) build

docker-push: ## Push the operator's image: IMG=…
	@$(image) push

docker-buildx: ## Build the image for PLATFORMS=linux/arm64,linux/amd64 and push it: IMG=…, CONTAINER_TOOL and BASE as above
	@$(image) buildx

install: ## Install the resource definition only
	@$(deploy) install

uninstall: ## Delete the resource definition, and with it every SchedExt (ignore-not-found=true: fine if it is not there)
	@$(deploy) uninstall

deploy: ## Install everything, with the image IMG=…
	@$(deploy) deploy

undeploy: ## Delete everything, every SchedExt and its schedulers included (ignore-not-found=true as above)
	@$(deploy) undeploy

build-installer: ## Write dist/install.yaml, the whole installation with the image IMG=…, as one file
	@$(deploy) build-installer
