# `make` alone prints the targets. Each target installs what it needs, once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := $(VENV)/.installed
JARS := .jars/.copied
CLIENTS := .jars/clients/.copied
S3_JARS := .jars/s3/.copied
YARN_JARS := .jars/yarn/.copied
PEERS := .jars/peers/.copied
S3_SERVER := .moto/.installed
HELM_VERSION := v3.22.0
HELM_FOLDER := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/mutation-quota/helm-$(HELM_VERSION)
CLASSES := .jars/archives/.written
MAVEN := mvn --quiet --batch-mode -Dstyle.color=never --log-file .jars/maven.log --file conf/jvm/pom.xml

define copy_jars
	@$(MAVEN) $(1) >/dev/null || { tail -n 5 .jars/maven.log; exit 1; }
	@touch $@
endef

# Processes that each have a broker and Spark: tests mostly wait for one of them. A file is run by one process, so
# that what its tests share is started once; in the order of the folders, so that the many quick ones come last.
PARALLEL := --numprocesses 3 --dist loadfile --no-loadscope-reorder
# Releases of Kafka that `make compatibility` runs as brokers, and what it runs
KAFKA_RELEASES ?= 3.9.2 4.2.2
WITH_OLDER_KAFKA := tests/integration/jobs/test_pipeline.py tests/integration/control/test_cluster_quotas.py \
	tests/integration/observe tests/integration/clients tests/integration/gateway -m "not newest_kafka and not nightly"
# More options of pytest: make test OPTIONS="--durations 25"
OPTIONS ?=

# Without bytecode, each of the hundreds of processes that tests start would compile the project.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help run demo test compatibility test-unit test-spark test-integration test-yarn nightly bench conformance gateway-conformance gateway-cost gateway-kills gateway-fuzz peers chaos guard references pictures docs docs-serve lint format jars clients package release helm setup clean

help: ## print this help
	@echo "usage: make TARGET"
	@awk -F ':.*## ' '/^##@ / { print "\n" substr($$0, 5) ":" } /^[a-z-]+:.*## / { printf "  %-19s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ run

setup: $(PACKAGES) $(JARS) ## install the dependencies into .venv and .jars

run: setup ## run everything: broker, jobs, gateway, five tenants, page
	@$(BIN)/mutation-quota run

demo: setup ## run and check KIP-599's example, Kafka to Delta; 40 s
	@$(BIN)/mutation-quota demo

##@ test

test: setup $(CLASSES) $(S3_SERVER) $(PEERS) ## all but the nightly tests, three at a time; 8 min, 10 the first time
	@$(BIN)/pytest $(PARALLEL) --ignore tests/unit/docs $(OPTIONS)

test-unit: setup ## tests that start no Spark and no broker; 2 min
	@$(BIN)/pytest --ignore tests/unit/docs tests/unit

test-spark: setup $(CLASSES) ## transforms and streams of files, on Spark; a few minutes
	@$(BIN)/pytest tests/spark

test-integration: setup $(CLASSES) $(S3_SERVER) $(PEERS) ## the jobs with a real broker and Delta; 5 min
	@$(BIN)/pytest $(PARALLEL) tests/integration tests/readme

test-yarn: setup $(YARN_JARS) ## the package on YARN, as in `make nightly`; 5 min
	@$(BIN)/pytest -m nightly tests/yarn

compatibility: setup $(CLASSES) $(CLIENTS) ## jobs, push, observe and gateway with older Kafka; needs Go and Node.js; 10 min a release
	@for release in $(KAFKA_RELEASES); do \
		$(MAVEN) dependency:copy-dependencies@broker -Dkafka.version=$$release \
			-Djars.dir=$(CURDIR)/.jars/releases/$$release >/dev/null || { tail -n 5 .jars/maven.log; exit 1; }; \
		echo "Kafka $$release"; \
		BROKER_JARS=.jars/releases/$$release/broker $(BIN)/pytest $(WITH_OLDER_KAFKA) || exit 1; \
		BROKER_JARS=.jars/releases/$$release/broker $(BIN)/python -m tests.evidence.gateway.conformance >/dev/null || exit 1; \
	done

nightly: setup $(CLASSES) $(S3_SERVER) $(CLIENTS) $(YARN_JARS) $(PEERS) helm ## the long forms of tests and evidence; needs Go and Node.js; hours
	@$(BIN)/pytest $(PARALLEL) -m nightly --timeout 1800
	@$(BIN)/pytest $(PARALLEL) -m "hypothesis and not nightly" --hypothesis-profile nightly --timeout 1800
	@GATEWAY_FUZZ_FRAMES=100000 $(BIN)/pytest tests/integration/gateway/test_hostile.py -k fuzzed -s --timeout 1800
	@$(MAKE) compatibility
	@$(BIN)/python -m tests.evidence.conformance
	@$(BIN)/python -m tests.evidence.chaos
	@$(BIN)/python -m tests.evidence.gateway.kills
	@$(BIN)/python -m tests.evidence.gateway.conformance
	@$(BIN)/python -m tests.evidence.peers
	@for release in $(KAFKA_RELEASES); do \
		BROKER_JARS=.jars/releases/$$release/broker $(BIN)/python -m tests.evidence.peers --only kafka-python franz-go >/dev/null || exit 1; \
	done

##@ evidence

bench: setup ## latency and throughput, into docs; 25 min
	@$(BIN)/python -m tests.evidence.bench.performance --out docs/evidence

conformance: setup ## decisions and codec compared with Kafka, into docs; 5 min
	@$(BIN)/python -m tests.evidence.conformance --out docs/evidence

gateway-conformance: setup $(CLIENTS) ## clients at the gateway and at a broker, into docs; needs Go and Node.js; minutes
	@$(BIN)/python -m tests.evidence.gateway.conformance --out docs/evidence/gateway

gateway-cost: setup ## the gateway and a direct connection, into docs; 14 min
	@$(BIN)/python -m tests.evidence.gateway.cost --out docs/evidence/gateway

gateway-kills: setup ## the gateway killed 50 times, its certificate renewed; 4 min
	@$(BIN)/python -m tests.evidence.gateway.kills --out docs/evidence/gateway

gateway-fuzz: setup ## 100,000 invalid and almost valid frames; 5 min
	@GATEWAY_FUZZ_FRAMES=100000 $(BIN)/pytest tests/integration/gateway/test_hostile.py -k fuzzed -s --timeout 1800

peers: setup $(PEERS) ## tests of Kafka and of two clients at a broker and the gateway, into docs; needs Go; 30 min
	@$(BIN)/python -m tests.evidence.peers --out docs/evidence/gateway

chaos: setup $(CLASSES) $(S3_SERVER) ## jobs and brokers killed, into docs; about 130 min
	@$(BIN)/python -m tests.evidence.chaos --out docs/evidence

guard: $(PACKAGES) ## fast performance checks, as in CI; seconds
	@$(BIN)/python -m tests.evidence.bench.guard

##@ develop

references: $(PACKAGES) ## generate JSON Schemas, references, the chart's page and figures on pages
	@$(BIN)/python -m conf.docs

docs: $(PACKAGES) ## build the site of the documentation, in .site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file conf/docs/mkdocs.yml

pictures: $(PACKAGES) ## pictures of the report and the dashboard; needs chromium
	@$(BIN)/python -m tests.browser.pictures

docs-serve: $(PACKAGES) ## serve the site at http://127.0.0.1:8000; Ctrl-C stops it
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --config-file conf/docs/mkdocs.yml

lint: $(PACKAGES) docs ## check code, types, imports and documentation
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m conf.docs --check
	@$(BIN)/pytest --quiet tests/unit/docs

format: $(PACKAGES) ## format the code with ruff
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

jars: $(JARS) $(if $(S3),$(S3_JARS)) ## copy the JVM jars into .jars; S3=1 adds those for S3

package: setup $(if $(S3),$(S3_JARS)) ## build dist for spark-submit; takes NODE_PYTHON=PATH, S3=1
	@rm -rf build dist
	@mkdir -p dist/conf
	@$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@$(BIN)/python -m conf.release.packing dist/*.whl dist/environment.tar.gz $(if $(NODE_PYTHON),--python $(NODE_PYTHON))
	@cp -r .jars/spark dist/jars
	@$(if $(S3),cp .jars/s3/*.jar dist/jars)
	@cp conf/spark/submit.py dist
	@cp conf/spark-defaults.conf conf/log4j2.properties conf/mutation-quota.toml conf/constraints.txt dist/conf
	@rm -rf build
	@ls dist

release: setup $(S3_JARS) ## build wheels, sdist, chart, SBOM and checksums; seconds
	@SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null)} $(BIN)/python -m conf.release release
	@ls release

helm: ## build Helm, for the tests of the chart, unless it is installed; needs Go, 2 min
	@command -v helm >/dev/null || [ -x $(HELM_FOLDER)/helm ] || { \
		command -v go >/dev/null || { echo "Helm or Go is needed; install one"; exit 1; }; \
		echo "building Helm into $(HELM_FOLDER) (110 MB; two minutes)"; \
		mkdir -p $(HELM_FOLDER); \
		GOBIN=$(HELM_FOLDER) go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION) >$(HELM_FOLDER)/go.log 2>&1 \
			|| { tail -n 5 $(HELM_FOLDER)/go.log; exit 1; }; \
	}

clients: $(CLIENTS) ## the jars of Kafka Streams, for gateway-conformance

clean: ## remove .venv, .moto, .jars, .data, .site, dist and release
	rm -rf $(VENV) .moto .jars .data .site dist release

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

$(PEERS): conf/jvm/peers.xml | $(JARS)
	@echo "copying Kafka's own tests into .jars/peers (74 MB)"
	@$(subst pom.xml,peers.xml,$(MAVEN)) dependency:copy-dependencies >/dev/null || { tail -n 5 .jars/maven.log; exit 1; }
	@touch $@

# The classes that JVMs of Spark and of brokers load in tests: each start takes two thirds of the processor time. Java
# ignores an archive of another class path, and the jars for S3 are on it once they are copied.
$(CLASSES): $(PACKAGES) $(JARS) $(S3_JARS)
	@echo "writing the class archives of the tests (230 MB; half a minute)"
	@$(BIN)/python -m tests.support.class_archive 2>.jars/tests.log >&2 || { tail -n 5 .jars/tests.log; exit 1; }
	@touch $@

# In a separate environment, because its boto3 needs an older python-dateutil than the jobs are tested with.
$(S3_SERVER): conf/s3-server.txt
	@$(PYTHON) -m venv .moto
	@.moto/bin/pip install --quiet --disable-pip-version-check --requirement conf/s3-server.txt
	@touch $@
