# `make` alone prints the targets. Each target does its own set-up, once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := $(VENV)/.installed
JARS := .jars/.copied
CLIENTS := .jars/clients/.copied
S3_JARS := .jars/.s3
YARN_JARS := .jars/yarn/.copied
S3_SERVER := .moto/.installed
MAVEN := mvn --quiet --batch-mode -Dstyle.color=never --log-file .jars/maven.log --file conf/jvm/pom.xml

define copy_jars
	@$(MAVEN) $(1) || { tail -n 5 .jars/maven.log; exit 1; }
	@touch $@
endef

# Two processes, each with a broker and a Spark of its own: most of the time a test waits for one of them.
TWO := --numprocesses 2 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help run demo test test-unit test-spark test-integration test-yarn bench bench-quick bench-quotas bench-repeats bench-tables bench-observe observed request-logs experiment algorithms storm conformance gateway-conformance gateway-cost gateway-kills gateway-fuzz chaos replay flood guard references pictures docs docs-serve lint format jars clients package setup clean

help: ## print this
	@echo "usage: make TARGET"
	@awk -F ':.*## ' '/^##@ / { print "\n" substr($$0, 5) ":" } /^[a-z-]+:.*## / { printf "  %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ run

setup: $(PACKAGES) $(JARS) ## install what all other targets need, into .venv and .jars

run: setup ## broker, enforce and audit with a live view; Ctrl-C ends it
	@$(BIN)/mutation-quota run

demo: setup ## KIP-599's worked example through Kafka, Spark and Delta, checked
	@$(BIN)/mutation-quota demo

##@ test

test: setup $(S3_JARS) $(S3_SERVER) ## all tests, by two at a time
	@$(BIN)/pytest $(TWO)

test-unit: setup ## the domain and everything else that needs no JVM; about two minutes
	@$(BIN)/pytest tests/unit

test-spark: setup ## transforms and file-driven streams on Spark
	@$(BIN)/pytest tests/spark

test-integration: setup $(S3_JARS) $(S3_SERVER) ## the slow part: a real broker, the jobs, Delta
	@$(BIN)/pytest $(TWO) tests/integration tests/readme

test-yarn: setup $(YARN_JARS) ## the package on a real YARN, in cluster mode; about five minutes; not part of `make test`
	@$(BIN)/pytest -m yarn tests/yarn

##@ evidence

bench: setup ## latency, throughput, state and audit beside their limits, into docs/evidence/performance.md; 15 to 25 minutes
	@$(BIN)/python -m tests.evidence.bench.performance --out docs/evidence

bench-quick: setup ## the same of less, in three minutes, for the terminal
	@$(BIN)/python -m tests.evidence.bench.performance --quick

bench-quotas: setup ## what 100,000 quotas cost beside ten; about a minute
	@$(BIN)/python -m tests.evidence.bench.quotas

bench-tables: setup ## the audit's tables after a day and after a year; about a minute
	@$(BIN)/python -m tests.evidence.bench.tables

bench-repeats: setup ## what it costs to remember requests, so that they are charged once; about two minutes
	@$(BIN)/python -m tests.evidence.bench.repeats

bench-observe: setup ## an imported request log of ten million lines beside grep; minutes, and 9 GB of disk
	@$(BIN)/python -m tests.evidence.bench.observe

observed: setup ## the experiment's storm by the broker's request log, and held by the quotas that follow; some ten minutes
	@$(BIN)/python -m tests.evidence.observed

request-logs: setup ## request logs of Kafka 2.7 to 4.2 by real brokers, into tests/data; about eight minutes
	@$(BIN)/python -m tests.evidence.request_logs

experiment: setup ## KIP-599's own experiment, without a quota and with one; about eleven minutes
	@$(BIN)/python -m tests.evidence.experiment

algorithms: $(PACKAGES) ## the token bucket beside the two that KIP-599 rejected, over one burst, into docs/explanation/algorithms.svg; seconds
	@$(BIN)/python -m tests.evidence.bench.algorithms

storm: setup ## applications far above their quotas, and an applier that is killed; some minutes
	@$(BIN)/python -m tests.evidence.storm

conformance: setup ## buckets and the codec beside Kafka's own classes, and the job beside a real broker; about five minutes
	@$(BIN)/python -m tests.evidence.conformance.wire
	@$(BIN)/python -m tests.evidence.conformance

gateway-conformance: setup $(CLIENTS) ## unmodified clients at the gateway beside a broker that enforces the quotas, into docs; minutes
	@$(BIN)/python -m tests.evidence.gateway --out docs/evidence/gateway

gateway-cost: setup ## the gateway beside a direct connection, into docs; about four minutes
	@$(BIN)/python -m tests.evidence.gateway.cost --out docs/evidence/gateway

gateway-kills: setup ## the gateway killed fifty times under load, into docs; four minutes
	@$(BIN)/python -m tests.evidence.gateway.kills --out docs/evidence/gateway

gateway-fuzz: setup ## 100,000 broken and nearly right frames at the gateway; five minutes
	@GATEWAY_FUZZ_FRAMES=100000 $(BIN)/pytest tests/integration/gateway/test_hostile.py -k fuzzed -s --timeout 1800

chaos: setup $(S3_JARS) $(S3_SERVER) ## the job killed a hundred times, on disk and on S3, and brokers killed; 75 minutes
	@$(BIN)/python -m tests.evidence.chaos

replay: setup ## random logs cut at random into batches, through Spark; about five minutes
	@$(BIN)/python -m tests.evidence.replay

flood: setup ## garbage at full speed beside good requests; about five minutes
	@$(BIN)/python -m tests.evidence.flood

guard: $(PACKAGES) ## the cheap ratios of the benchmark, which a change may lose; seconds
	@$(BIN)/python -m tests.evidence.bench.guard

##@ develop

references: $(PACKAGES) ## write what is generated from the code: JSON Schemas, and the pages of docs/reference
	@$(BIN)/python -m schemas.json_schemas
	@$(BIN)/python -m schemas.table_docs
	@$(BIN)/python -m conf.docs

docs: $(PACKAGES) ## the documentation as a site, in .site; any broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file conf/docs/mkdocs.yml

pictures: $(PACKAGES) ## the pictures of the report and the dashboard in docs/how-to/pictures; needs chromium and chromedriver
	@$(BIN)/python -m tests.browser.pictures

docs-serve: $(PACKAGES) ## the same on http://127.0.0.1:8000, built again with each change; Ctrl-C ends it
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --config-file conf/docs/mkdocs.yml

lint: $(PACKAGES) docs ## ruff, mypy, the direction of imports, and the documentation: links, generated parts, wording
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m conf.docs --check
	@$(BIN)/python -m conf.docs.wording

format: $(PACKAGES) ## let ruff lay out the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

jars: $(JARS) $(if $(S3),$(S3_JARS)) ## the JVM jars of conf/jvm/pom.xml, into .jars; S3=1 adds those of S3

package: setup $(if $(S3),$(S3_JARS)) ## a wheel, and what spark-submit takes, into dist; NODE_PYTHON=PATH is where the nodes have Python, S3=1 adds the jars of S3
	@rm -rf build dist
	@mkdir -p dist/conf dist/kafka-clients
	@$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@$(BIN)/python -m jobs.spark.packing dist/*.whl dist/environment.tar.gz $(if $(NODE_PYTHON),--python $(NODE_PYTHON))
	@cp -r .jars/spark dist/jars
	@cp .jars/broker/kafka-clients-*.jar dist/kafka-clients
	@cp conf/spark/submit.py dist
	@cp conf/spark-defaults.conf conf/log4j2.properties conf/mutation-quota.toml conf/constraints.txt dist/conf
	@rm -rf build
	@ls dist

clients: $(CLIENTS) ## the jar of Kafka Streams, for gateway-conformance, into .jars/clients

clean: ## remove what was installed, kept and built: .venv, .moto, .jars, .data, .site, dist
	rm -rf $(VENV) .moto .jars .data .site dist

$(PACKAGES): pyproject.toml conf/constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo "Python 3.11 or newer is needed; install it, or name it: make PYTHON=python3.12"; exit 1; }
	@echo "installing Python packages into $(VENV) (1.8 GB; one to three minutes)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint conf/constraints.txt --editable '.[dev]'
	@touch $@

$(JARS): conf/jvm/pom.xml
	@version=$$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p'); \
		[ "$${version:-0}" -ge 17 ] || { echo "a JDK 17 or newer is needed; install one (openjdk-17-jdk)"; exit 1; }
	@command -v mvn >/dev/null || { echo "Maven is needed; install it (maven)"; exit 1; }
	@echo "copying jars into .jars (80 MB)"
	@rm -rf .jars && mkdir .jars
	$(call copy_jars,process-resources)

$(CLIENTS): conf/jvm/pom.xml | $(JARS)
	$(call copy_jars,dependency:copy@clients)

$(S3_JARS): conf/jvm/pom.xml | $(JARS)
	$(call copy_jars,dependency:copy@s3)

$(YARN_JARS): conf/jvm/pom.xml | $(JARS)
	$(call copy_jars,dependency:copy@yarn)

# In an environment of its own: its boto3 wants an older python-dateutil than the jobs are tested with.
$(S3_SERVER): conf/s3-server.txt
	@$(PYTHON) -m venv .moto
	@.moto/bin/pip install --quiet --disable-pip-version-check --requirement conf/s3-server.txt
	@touch $@
