# Everything starts here. Each target does its own set-up; `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.ONESHELL:
.SHELLFLAGS := -euo pipefail -c
.PHONY: help setup check format lock test test-unit test-integration test-e2e lab demo clean
python := .venv/bin/python
stage = scripts/stage

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Install what a clone needs: Debian packages of the host, and .venv from the lock
	@scripts/setup

check: setup ## Format, lint, types, import contracts, lock and generated files: quick
	@scripts/check

format: setup ## Put the code in form
	@.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

lock: setup ## Write requirements.lock anew from pyproject.toml (scripts/lock --upgrade takes newer versions)
	@scripts/lock

test: setup ## All tests, with the lab they need (about 35 minutes the first time, then under 10)
	@$(stage) lab $(python) -m lab build
	$(stage) unit $(python) -m pytest tests/unit
	$(stage) integration $(python) -m pytest tests/integration
	$(stage) e2e $(python) -m pytest tests/e2e

test-unit: setup ## Tests that need nothing but Python: seconds
	@$(stage) unit $(python) -m pytest tests/unit

test-integration: setup ## Tests against a real control plane and a real registry on this host
	@$(stage) integration $(python) -m pytest tests/integration

test-e2e: setup ## Tests in the lab's machine, on a real sched_ext kernel
	@$(stage) e2e $(python) -m pytest tests/e2e

lab: setup ## Build everything the lab is made of
	@$(stage) lab $(python) -m lab build

demo: setup ## Boot the lab's machine and watch schedulers attach to its kernel
	@$(python) -m lab.demo

clean: ## Delete what was made in this clone (the lab's cache stays: `python -m lab prune --all`)
	@rm -rf .venv dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
