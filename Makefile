# One line each; `make help` lists them.
PYTHON ?= python3
RUN := .venv/bin
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help install demo test test-fast up down bench lint schemas

help:  ## what there is
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

install:  ## environment in .venv (about 3.5 GB; a second run takes a second)
	@PYTHON="$(PYTHON)" bash infra/install.sh

demo: install  ## the main job: a model learns from its users while it serves (ARGS="--seed 11 --json FILE")
	@$(RUN)/headrace demo $(ARGS)

test: install  ## every test, lint and types
	@bash infra/test.sh $(ARGS)

test-fast: install  ## unit and loop tests, under a minute
	@$(RUN)/pytest -q tests/unit tests/loop tests/contract $(ARGS)

up: install  ## the local stack in the background
	@$(RUN)/headrace up $(ARGS)

down:  ## stop it
	@$(RUN)/headrace down $(ARGS)

bench: install  ## benchmarks: headrace bench NAME
	@$(RUN)/headrace bench $(ARGS)

lint: install  ## ruff, mypy strict, import contracts
	@$(RUN)/ruff check . && $(RUN)/ruff format --check . && $(RUN)/mypy && $(RUN)/lint-imports

schemas: install  ## write JSON Schemas, AsyncAPI document and picture from topics.py
	@$(RUN)/python -m headrace_schemas.generate
