# Three commands do everything on a machine with only Python and make: `make run`, `make audit` and `make test`.
# Bare `make` lists the rest.

# python3 if it is of a tested version, or else a Python of a tested version by its full name, or else a newer one.
TESTED := (3, 11) <= sys.version_info < (3, 14)
NEWER := sys.version_info >= (3, 14)
first-python = $(shell for p in $(1); do \
	"$$p" -c 'import sys; sys.exit(not $(2))' 2>/dev/null && echo "$$p" && break; done)
PYTHON ?= $(or $(call first-python,python3 python3.13 python3.12 python3.11,($(TESTED))), \
	$(call first-python,python3 python3.14 python3.15 python3.16,($(NEWER))))
MISSING = "Kohort needs Python 3.11 or newer; none found. Set PYTHON=/path/to/python3."
UNTESTED = "Kohort is tested with Python 3.11 to 3.13; $(PYTHON) is newer and untested. It may well work."
UV_VERSION := 0.13.7
BIN := .venv/bin
PACKAGES := audit broker client coordinator history protocol storage testing

.DEFAULT_GOAL := help
.PHONY: help install run audit test check format generate lock bench pictures fuzz vectors rewrite clean
.PHONY: parity attack simulate stories examples leaks

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: .venv/.dev  ## create .venv with everything pinned; .venv/bin/kohort is the command

# Each set of packages has a stamp of its own: the broker's few packages take seconds, the 500 MB of Spark are only
# fetched for the audit and the tests. Thanks to the stamps the second run is instant. Do not copy .venv to another
# folder: it holds absolute paths.
.venv/.broker: requirements.lock
.venv/.audit: requirements-audit.lock
.venv/.dev: requirements-dev.lock
.venv/.broker .venv/.audit .venv/.dev: pyproject.toml hatch_build.py broker/topics/record_walk.c
	@test -n "$(PYTHON)" || { echo $(MISSING) >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit($(NEWER))' || echo $(UNTESTED) >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --compile-bytecode --no-deps --require-hashes -r $(filter %.lock,$^)
	VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --no-deps -e .
	@$(BIN)/python -m compileall -q $(PACKAGES) src/kohort
	@touch $@

run: .venv/.broker  ## start the broker on port 9092 (stop it with Ctrl-C)
	@$(BIN)/python -m compileall -q $(PACKAGES) src/kohort
	$(BIN)/kohort serve

audit: .venv/.audit  ## break some groups on a broker of its own, audit the log, say where the report is
	$(BIN)/python -m kohort.audit.sample $(SAMPLE)

# Three also on two cores: tests with real clients wait most of the time, for heartbeats and timeouts.
WORKERS ?= 3
# A worker ends only if a test hung and nothing else could end it. A new worker would run, and hang in, that test again.
SIDE_BY_SIDE = -n $(WORKERS) --dist loadscope --no-loadscope-reorder --max-worker-restart 0

test: install  ## run the tests, three at a time (WORKERS=1: one at a time)
	$(BIN)/python -m pytest $(if $(filter-out 0 1,$(WORKERS)),$(SIDE_BY_SIDE))

stories: install  ## real clients in groups and transactions: kills, restarts, migrations (20 minutes)
	$(BIN)/python -m pytest -m story

examples: install  ## the tests in examples/, with the test runners of their languages
	$(BIN)/python -m pytest -m example

leaks: install  ## start and stop 1,000 brokers in one process, with members connected: nothing may be left behind
	$(BIN)/python -W error -m tests.testing.leaks --brokers 1000

check: install  ## format, lint, types, import contract
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install  ## format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

generate: install  ## write protocol/messages anew from the schemas
	$(BIN)/python -m codegen

COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
	--no-annotate --python-version 3.11 --custom-compile-command "make lock" pyproject.toml

lock: install  ## resolve the dependencies anew into the lock files
	$(COMPILE) --extra audit --group dev -o requirements-dev.lock
	$(COMPILE) --extra audit -c requirements-dev.lock -o requirements-audit.lock
	$(COMPILE) -c requirements-dev.lock -o requirements.lock

rewrite: install  ## play the scenes in tests/transcripts and write down what is said now
	$(BIN)/python -m tests.transcripts

clean:  ## remove the environment and caches
	rm -rf .venv .mypy_cache .ruff_cache .hypothesis .import_linter_cache kohort-audit

vectors: install  ## make the files of a real Kafka in tests/data anew (needs Java and Maven)
	$(BIN)/python -m tests.kafka.make_message_vectors
	$(BIN)/python -m tests.kafka.make_consumer_groups
	$(BIN)/python -m tests.kafka.make_streams_groups
	$(BIN)/python -m tests.kafka.make_regular_expressions

PEER ?= --kafka

bench: install  ## figures for docs/performance.md, with ratios against Apache Kafka if Java and Maven are here
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.test_kit
	$(BIN)/python -m benchmarks.codec
	$(BIN)/python -m benchmarks.storage
	$(BIN)/python -m benchmarks.in_process
	$(BIN)/python -m benchmarks.broker $(PEER)
	$(BIN)/python -m benchmarks.groups $(PEER)
	$(BIN)/python -m benchmarks.consumer_groups $(PEER)
	$(BIN)/python -m benchmarks.share_groups $(PEER)
	$(BIN)/python -m benchmarks.transactions $(PEER)
	$(BIN)/python -m benchmarks.synced_commits $(PEER)
	$(BIN)/python -m benchmarks.audit_decode
	$(BIN)/python -m benchmarks.audit_in_process
	$(BIN)/python -m benchmarks.audit
	$(BIN)/python -m benchmarks.audit_command

RECORDINGS ?= .rebalances

pictures: install  ## record the three ways of rebalancing, print who paused, draw the pictures in docs/
	$(BIN)/python -m benchmarks.rebalance_pause --clients java --save $(RECORDINGS)
	$(BIN)/python -m benchmarks.rebalance_pictures $(RECORDINGS) docs
	$(BIN)/python -m benchmarks.live_page_pictures docs

fuzz: install  ## decode 10 million mutated frames (10 minutes on 2 cores)
	$(BIN)/python -m benchmarks.fuzz --frames 10000000

parity: install  ## send the same requests to Apache Kafka and to Kohort and compare the answers (needs Java and Maven)
	$(BIN)/python -m tests.parity $(PARITY)
	$(BIN)/python -m tests.parity.assignments --groups 300
	$(BIN)/python -m tests.parity.share_assignments --groups 100
	$(BIN)/python -m tests.parity.random_stories --stories 80

MINUTES ?= 60

attack: install  ## send the most expensive requests there are for an hour (MINUTES=60); a bystander must be answered
	$(BIN)/python -m tests.attack --minutes $(MINUTES) $(ATTACK)

simulate: install  ## simulated groups on new seeds for an hour (MINUTES=60), and bugs that they must catch
	$(BIN)/python -m tests.simulation --minutes $(MINUTES) $(SIMULATE)
