# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

JOBS ?= 2
TOOLS := tests/tools
COLLECTION := .collections/ansible_collections/kentino/gpu
STAGES := node-images molecule drills core-floor core-newest unit unit-newest unit-python39 ansible-lint lint types docs package torchrun demo-run

# The repository is the root of the collection, but Ansible and Python look for it under ansible_collections/kentino/gpu.
export ANSIBLE_COLLECTIONS_PATH := $(CURDIR)/.collections
# Only what this Makefile says: a configuration or a plugin path of the person who calls it must not decide a test.
export ANSIBLE_CONFIG := $(CURDIR)/tests/tools/ansible.cfg
export ANSIBLE_HOME := $(CURDIR)/build/ansible
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: help demo check test nightly bench clean stages $(STAGES) quick-lint quick-types quick-unit

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

demo: .venv-demo/.ready $(COLLECTION) ## the gate on a healthy simulated 8-GPU node, on one that lost a GPU, then a preflight (no root, GPU or container)
	@PATH="$(CURDIR)/.venv-demo/bin:$$PATH" $(TOOLS)/demo

check: .venv/.ready $(COLLECTION) ## the inner loop, under a minute: ruff, mypy, unit tests
	@$(MAKE) --no-print-directory --jobs=$(JOBS) --output-sync=target quick-unit quick-types quick-lint

test: ## everything, half an hour on two cores (root and Debian for the containers); prints the time of each stage
	@rm -rf build/stages
	@$(MAKE) --no-print-directory --jobs=$(JOBS) --keep-going --output-sync=target stages || true
	@$(TOOLS)/summary $(STAGES)

nightly: .venv/.ready $(COLLECTION) ## every drill of the provisioning, an hour and more (root and Debian)
	@$(TOOLS)/nodes image
	@.venv/bin/pytest -q --nightly --numprocesses=2 --dist=loadfile tests/drills

bench: .venv/.ready $(COLLECTION) ## the performance figures, as ratios within one run, into build/bench.json (STRICT=--strict fails on a missed target)
	@PATH="$(CURDIR)/.venv/bin:$$PATH" .venv/bin/python tests/benchmarks/run.py $(STRICT)

clean: ## remove the virtual environments, what was built, and the test nodes
	@$(TOOLS)/nodes down >/dev/null 2>&1 || true
	rm -rf .venv .venv-* .collections .ansible build tests/output .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Environments

$(COLLECTION):
	@mkdir -p $(dir $@)
	@ln -sfn ../../.. $@

.venv/.ready: requirements-dev.txt
	@$(TOOLS)/venv .venv $< 3.11 3.12 3.13

.venv-demo/.ready: $(TOOLS)/requirements-demo.txt
	@$(TOOLS)/venv .venv-demo $< 3.11 3.12 3.13 3.14

.venv-newest/.ready: $(TOOLS)/requirements-newest.txt
	@$(TOOLS)/venv .venv-newest $< 3.13 3.14 3.12

.venv-torch/.ready: $(TOOLS)/requirements-torch.txt
	@$(TOOLS)/venv .venv-torch $< 3.11 3.12 3.13

# The inner loop

quick-lint:
	@.venv/bin/ruff check --quiet
	@.venv/bin/ruff format --check --quiet || { .venv/bin/ruff format --check; false; }

quick-types:
	@.venv/bin/mypy

# Without what starts processes of its own (the simulated tools, whole checks, playbooks): "make test" has all of it.
quick-unit:
	@.venv/bin/pytest -q --numprocesses=$(JOBS) --ignore=tests/unit/simulator --ignore=tests/unit/plugins/action \
		--ignore=tests/unit/plugins/module_utils/_check --ignore=tests/unit/plugins/module_utils/_probe --ignore=tests/unit/plugins/modules

# Everything. The longest first: what is left at the end is short.

stages: $(STAGES)

node-images:
	@$(TOOLS)/stage $@ $(TOOLS)/nodes image

core-floor: .venv/.ready
	@# The newest pylint sees what this one sees.
	@$(TOOLS)/stage $@ $(TOOLS)/ansible_test --without pylint .venv

core-newest: .venv-newest/.ready
	@# An action, a check, a role; the rest cannot tell one core from another.
	@$(TOOLS)/stage $@ $(TOOLS)/ansible_test .venv-newest gate health_info preflight_play

molecule: .venv/.ready $(COLLECTION) node-images
	@PATH="$(CURDIR)/.venv/bin:$$PATH" $(TOOLS)/stage $@ $(TOOLS)/molecule

# What can go wrong while a node is provisioned; "make nightly" has the rest.
drills: .venv/.ready $(COLLECTION) node-images
	@$(TOOLS)/stage $@ .venv/bin/pytest -q --numprocesses=2 --dist=loadfile tests/drills

unit: .venv/.ready $(COLLECTION)
	@$(TOOLS)/stage $@ .venv/bin/pytest -q --no-skips --numprocesses=4

unit-newest: .venv-newest/.ready $(COLLECTION)
	@# What touches Ansible; the rest cannot tell one core from another.
	@$(TOOLS)/stage $@ .venv-newest/bin/pytest -q tests/unit/plugins/action tests/unit/plugins/filter tests/unit/plugins/modules tests/unit/plugins/test

unit-python39: $(COLLECTION)
	@$(TOOLS)/stage $@ $(TOOLS)/node_python 3.9

torchrun: .venv-torch/.ready $(COLLECTION)
	@$(TOOLS)/stage $@ .venv-torch/bin/pytest -q tests/dryrun

ansible-lint: .venv/.ready $(COLLECTION)
	@PATH="$(CURDIR)/.venv/bin:$$PATH" $(TOOLS)/stage $@ ansible-lint --offline --strict

lint: .venv/.ready
	@$(TOOLS)/stage $@ $(MAKE) --no-print-directory quick-lint

types: .venv/.ready $(COLLECTION)
	@$(TOOLS)/stage $@ $(MAKE) --no-print-directory quick-types

docs: .venv/.ready $(COLLECTION)
	@PATH="$(CURDIR)/.venv/bin:$$PATH" $(TOOLS)/stage $@ $(TOOLS)/docs

package: .venv/.ready
	@PATH="$(CURDIR)/.venv/bin:$$PATH" $(TOOLS)/stage $@ $(TOOLS)/package

demo-run:
	@$(TOOLS)/stage $@ $(MAKE) --no-print-directory demo
