# Every target sets up what it needs first; with nothing to do that takes a fraction of a second.
# Name a Python with PYTHON=/path/to/python3.11, further arguments of pytest with ARGS='-k lanes'.

PYTHON := $(shell PYTHON='$(PYTHON)' deploy/local/find-python)
RUN := .venv/bin/python -m
ARGS ?=
ROWS ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo up down test test-all check fmt bench clean lock

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' Makefile | awk -F ':.*## ' '{printf "make %-10s %s\n", $$1, $$2}'

setup: ## Virtual environment, packages, Java if there is none, Kafka
	@$(if $(PYTHON),$(PYTHON) -m deploy.local.setup,exit 1)

demo: setup ## Start a platform, publish events, show them arriving
	@./meridian demo

up: setup ## Start a platform and keep it running until Ctrl-C
	@./meridian up

down: setup ## Stop the platform that 'up' started
	@./meridian down

test: setup ## All tests but the long ones
	$(RUN) pytest -q -m 'not slow' $(ARGS)

test-all: setup ## All tests
	$(RUN) pytest -q $(ARGS)

check: setup ## Format, lint, types, import rules, house rules
	$(RUN) ruff format --check
	$(RUN) ruff check
	$(RUN) mypy
	$(RUN) pyright
	.venv/bin/lint-imports
	$(RUN) pytest -q tests/style

fmt: setup ## Format the code and repair what lint can repair
	$(RUN) ruff format
	$(RUN) ruff check --fix

bench: setup ## Measure the platform beside its floor; some rows only: ROWS=publish-ack,callback-200
	@.venv/bin/python -P -m bench --rows '$(ROWS)'

lock: setup ## Resolve the dependencies anew and lock them with their hashes
	deploy/local/lock

clean: ## Remove what can be made again; a platform's home stays
	rm -rf .venv .cache build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf ./*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
