# Everything starts from a fresh clone with Python 3.11 or newer and make: the targets make .venv by themselves.
VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.8
LOCK := requirements.lock
# Those for which `make lock` sees to it that every package has a wheel, so that no set-up needs a compiler.
PYTHONS := 3.11 3.12 3.13 3.14
# SAM CLI has an environment of its own: what it pins does not go with ours.
SAM_VERSION := 1.170.0
SAM_LOCK := requirements-sam.lock
SAM_VENV := .venv-sam
# Real S3 clients have environments of their own, too: the Python ones here, those in Go and Node in CLIENTS_BUILT.
CLIENTS := tests/clients
CLIENTS_LOCK := $(CLIENTS)/requirements.lock
CLIENTS_VENV := .venv-clients
CLIENTS_BUILT := build/clients
# Second engines of AWS's APIs: MiniStack in Python, dynalite and the reference engine of JSONata in Node.
ENGINES := tests/engines
ENGINES_LOCK := $(ENGINES)/requirements.lock
ENGINES_VENV := .venv-engines
# So has the CDK example.
CDK_LOCK := examples/cdk/requirements.txt
CDK_VENV := .venv-cdk
SAM_PATH = SAM_CLI_TELEMETRY=0 PATH="$(CURDIR)/$(SAM_VENV)/bin:$$PATH"
SAM = $(SAM_PATH) sam
# The first of these that is a Python of 3.11 or newer; looked for only when .venv is made.
PYTHON = $(shell for python in python3.11 python3 python3.12 python3.13 python3.14 python; do \
	$$python $(IS_PYTHON) 2>/dev/null && echo $$python && break; done)

IS_PYTHON := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
NO_PYTHON = { echo "make: $(if $(PYTHON),$(PYTHON) is no Python of 3.11 or newer,no Python of 3.11 or newer was found on the PATH)" >&2; exit 1; }

# Where a shell has told Python to keep no bytecode, each of the many processes would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help help-evidence advise setup lock run stop demo picture recording thesis paper map load benchmarks-short test-ends evaluate consistency consistency-bugs consistency-ranges consistency-gateway pool-soak fuzz fuzz-gateway s3-tests chaos chaos-evidence soak wheels release build layer gateway-layer gateway-emulator validate deploy upgrade delete invoke clients engines engine-ministack engine-dynalite test test-weekly test-clients test-engines test-engines-short test-fast check audit lint format template types clean capacity aws-evidence package cdk help-develop site

# Processes that run tests at a time, one more than cores, since some tests wait; `make test WORKERS=0` runs them in one, for
# a debugger.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
TEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# The quick tests run in two processes of about the same length. Each worker of xdist would import and collect all of them.
QUICK = $(BIN)/python -m pytest -q -m 'not slow' --hypothesis-profile quick
FAST := $(filter-out %/__pycache__/,$(wildcard $(patsubst %,tests/%/,lifecycle contract golden template) tests/unit/*/ tests/unit/*.py))
FAST_ASIDE := $(patsubst %,tests/%/,contract golden template) \
	$(patsubst %,tests/unit/%/,adapters benchmarks cli client custom_resources sim)

# The comment of a target begins with its group.
LIST = @for group in $(1); do echo "$$group"; \
	sed -nE "s/^([a-z0-9-]+):.*\#\# $$group: (.*)/  make \1\t\2/p" $(MAKEFILE_LIST) | expand -t 26; done

help: ## develop: show the targets to try, decide and deploy
	$(call LIST,try decide deploy more)

help-develop: ## more: show the targets to work on this project
	$(call LIST,develop)

help-evidence: ## more: show the targets that reproduce what the documents claim
	$(call LIST,evidence)

setup: $(VENV)/.ready ## develop: make .venv with the `burstcache` command (again only when a pyproject.toml or the lock changes)

# An environment of an older Python, or one that was left without pip, is made anew.
# uv installs in a fifth of the time; where it cannot be had, pip alone does the same. Both take only what has a hash in the
# lock, uv itself included.
$(VENV)/.ready: pyproject.toml tools/pyproject.toml $(LOCK)
	@{ $(BIN)/python $(IS_PYTHON) && $(BIN)/python -c 'import pip'; } 2>/dev/null || $(PYTHON) $(IS_PYTHON) 2>/dev/null || $(NO_PYTHON)
	{ $(BIN)/python $(IS_PYTHON) && $(BIN)/python -c 'import pip'; } 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	awk '/^[^ #]/ { is_uv = /^uv==/ } is_uv' $(LOCK) > $(VENV)/uv.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r $(VENV)/uv.lock \
	  && $(BIN)/uv pip install -q --python $(BIN)/python --require-hashes -r $(LOCK) \
	  || $(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r $(LOCK)
	$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e . -e tools
	touch $@

# Versions stand in both pyproject.toml, above, and in the requirements of packages of functions, which Python 3.14 runs; the rest, and all
# hashes, follow from them. What a package no longer needs is taken out of its requirements by hand, as a test demands.
lock: ## develop: write the locks anew, after a version in pyproject.toml, a requirements.txt or the Makefile was changed
	$(BIN)/uv pip compile -q --universal --generate-hashes --no-header --group dev --no-emit-package burstcache \
	  pyproject.toml tools/pyproject.toml -o $(LOCK)
	for folder in src cloudformation examples/thumbnails/src; do $(BIN)/uv pip compile -q --universal --generate-hashes --python-version 3.14 --no-header \
	  --no-annotate --no-strip-extras -c $(LOCK) $$folder/requirements.txt -o $$folder/requirements.txt || exit 1; done
	$(BIN)/uv pip compile -q --universal --generate-hashes --python-version 3.11 --no-header --no-annotate --no-strip-extras \
	  -c $(LOCK) --extra gateway pyproject.toml -o deploy/gateway/requirements.txt
	$(BIN)/uv pip compile -q --universal --generate-hashes --python-version 3.11 --no-header --no-annotate --no-strip-extras \
	  -c $(LOCK) --extra gateway --extra otel pyproject.toml -o deploy/gateway/requirements-image.txt
	for python in $(PYTHONS); do for processor in x86_64 aarch64; do $(BIN)/uv pip install -q --dry-run --only-binary :all: --target build/wheels \
	  --python-version $$python --python-platform $$processor-manylinux_2_28 --require-hashes -r $(LOCK) || exit 1; done; done
	$(BIN)/uv pip compile -q --universal --generate-hashes --no-header --group pyproject.toml:clients -o $(CLIENTS_LOCK)
	$(BIN)/uv pip compile -q --universal --generate-hashes --no-header --group pyproject.toml:engines -o $(ENGINES_LOCK)
	$(BIN)/uv pip compile -q --universal --generate-hashes --no-header --group pyproject.toml:recording -o benchmarks/recording.lock
	$(BIN)/uv pip compile -q --universal --generate-hashes --no-header --group pyproject.toml:cdk -o $(CDK_LOCK)
	printf '%s\n' aws-sam-cli==$(SAM_VERSION) uv==$(UV_VERSION) | $(BIN)/uv pip compile -q --universal --generate-hashes \
	  --python-version 3.11 --no-header --no-annotate - -o $(SAM_LOCK)

run: setup ## try: start the whole system on this machine, without Docker or AWS; Ctrl-C ends it
	$(BIN)/burstcache local up --dashboard-port 8082

stop: setup ## try: end the local run from another terminal
	$(BIN)/burstcache local down

picture: setup ## evidence: record a burst on this machine and draw it: docs/images/burst.png
	$(BIN)/python -m benchmarks.picture docs/images/burst.png

recording: setup ## evidence: record a terminal during a burst on this machine: docs/images/burst.svg
	$(BIN)/python -m benchmarks.recording docs/images/burst.svg

advise: setup ## decide: say what an access log needs, and what that costs; LOG=FILE
	@test -n "$(LOG)" || { echo "make advise: LOG=FILE is missing; examples/logs/bursts.csv.gz is one" >&2; exit 2; }
	$(BIN)/burstcache advise "$(LOG)"

demo: setup ## try: a scripted burst on this machine: S3, Lambda, Redis and S3 again
	$(BIN)/python -m benchmarks.demo

thesis: setup ## evidence: reproduce the thesis's evaluation; RUNS=DIR replays its own runs, LOG=FILE an access log in their place
	$(BIN)/burstcache research thesis $(if $(RUNS),--runs "$(RUNS)") $(if $(LOG),--log "$(LOG)")

paper: setup ## evidence: reproduce InfiniCache's evaluation, as far as it can be without its trace: build/paper
	$(BIN)/burstcache research paper

map: setup ## evidence: map the loads for which this is the best buy: table and pictures in build/map
	$(BIN)/burstcache research map

load: setup ## evidence: load each tier to saturation, by the front door and the client: docs/images/load.png, a quarter of an hour
	$(BIN)/python -m benchmarks.load docs/images/load.png

aws-evidence: setup ## evidence: try every kind of stack in an AWS account for under a dollar: build/aws-evidence; LOCAL=1 here, DELETE=1 only cleans up, BILL=1 a day later
	$(if $(LOCAL)$(DELETE)$(BILL),,$(MAKE) --no-print-directory build gateway-layer)
	$(SAM_PATH) $(BIN)/burstcache research aws-evidence $(if $(REGION),--region "$(REGION)") $(if $(PROFILE),--profile "$(PROFILE)") \
	  $(if $(LOCAL),--local) $(if $(BUDGET),--budget) $(if $(DELETE),--delete) $(if $(BILL),--bill) $(if $(STACKS),--stacks $(STACKS)) $(if $(EXPRESS_ZONE),--express-zone "$(EXPRESS_ZONE)")

benchmarks-short: setup $(VENV)/.browser ## evidence: run every benchmark in its short form, to see that it still runs: half an hour
	$(BIN)/python -m benchmarks.short $(ONLY)

# Of make's own PYTHONS only what the command line names counts here: this machine may not have the others.
test-ends: ENDS = $(if $(filter command line,$(origin PYTHONS)),--python $(PYTHONS))
test-ends: setup ## evidence: test the library with the oldest and newest dependencies, and next to its partners; PYTHONS="3.11 3.13"
	PYTHONPATH=tests $(BIN)/python -m ends $(ENDS)
	PYTHONPATH=tests $(BIN)/python -m ends.partners $(ENDS)

evaluate: setup ## evidence: replay the thesis's spikes against the local run and hold them against the simulator: forty minutes
	$(BIN)/python -m benchmarks.evaluate

# The order of API writes is checked by a program in Go, all else without it.
GO ?= go
CHECKER := build/consistency/checker

$(CHECKER): $(wildcard tests/consistency/checker/*.go) tests/consistency/checker/go.mod
	@mkdir -p $(@D)
	cd $(<D) && $(GO) build -o $(CURDIR)/$@ .

# AWS's emulator of Lambda's runtime and Extensions APIs. With it, a test runs the gateway's extension next to a function.
RIE_VERSION := v0.0.0-20261030222936-bef5c4ba774d

gateway-emulator: build/aws-lambda-rie ## evidence: build AWS's Runtime Interface Emulator, with Go; a test then runs the gateway's extension under it

build/aws-lambda-rie:
	@mkdir -p $(@D)
	GOBIN=$(CURDIR)/build $(GO) install github.com/aws/aws-lambda-runtime-interface-emulator/cmd/aws-lambda-rie@$(RIE_VERSION)

consistency: setup $(CHECKER) ## evidence: a million reads and writes through every state, each answer checked, from where the last run ended; OPERATIONS=N
	PYTHONPATH=tests $(BIN)/python -m consistency --checker $(CHECKER) $(if $(OPERATIONS),--operations $(OPERATIONS))

consistency-bugs: setup $(CHECKER) ## evidence: plant ten bugs in copies of the project, and see that each is found
	PYTHONPATH=tests $(BIN)/python -m consistency.bugs --checker $(CHECKER)

consistency-ranges: setup ## evidence: 100,000 steps of writes, reads of any range by every interface and a pool, restarts and damage, each answer checked; STEPS=N
	PYTHONPATH=tests $(BIN)/python -m consistency.ranges $(STEPS)

consistency-gateway: setup $(CHECKER) ## evidence: 100,000 reads and writes through a gateway of two processes, each answer checked; then with S3 failing and processes killed
	PYTHONPATH=tests $(BIN)/python -m consistency.gateway --checker $(CHECKER) $(if $(OPERATIONS),--operations $(OPERATIONS))
	PYTHONPATH=tests $(BIN)/python -m consistency.gateway --faults $(if $(OPERATIONS),--operations $(OPERATIONS))

pool-soak: setup ## evidence: 20,000 PUTs, GETs and deletes through the pool while members and hubs come and go; SEED=N
	$(BIN)/python -m benchmarks.pool_soak $(if $(SEED),--seed $(SEED))

fuzz: setup ## evidence: 100,000 requests of every kind to the local run's front door, from where the last run was cut off; REQUESTS=N
	PYTHONPATH=tests $(BIN)/python -m fuzz $(REQUESTS)

fuzz-gateway: setup ## evidence: 100,000 requests of every kind, damaged ones too, to gateways in front of moto; REQUESTS=N
	PYTHONPATH=tests $(BIN)/python -m fuzz.gateway $(REQUESTS)

STORE ?= moto
s3-tests: setup ## evidence: run Ceph's conformance tests of S3 straight and through the gateway: build/s3tests; STORE=versitygw, SUITE=PATH of a clone
	PYTHONPATH=tests $(BIN)/python -m s3tests all --store $(STORE) $(if $(SUITE),--suite "$(SUITE)")

soak: setup ## evidence: two hours of load with a fault every minute, in legs of an hour: build/soak, begins the leg that was cut off anew
	PYTHONPATH=tests $(BIN)/python -m chaos.soak

chaos: setup ## evidence: break everything in turn under load, and see what readers notice: build/chaos, goes on where it was; FROM=FAULT, ONLY="FAULT …"
	PYTHONPATH=tests $(BIN)/python -m chaos $(if $(FROM),--from $(FROM)) $(if $(ONLY),--only $(ONLY))

chaos-evidence: setup ## evidence: write what `make chaos` has found into docs/evidence/faults.md, and its picture into docs/images
	PYTHONPATH=tests $(BIN)/python -m chaos.evidence

wheels: setup ## develop: build the distributions of the library and of the tools: build/wheels
	rm -rf build/wheels
	$(BIN)/uv build -q --no-build-isolation --python $(BIN)/python --out-dir build/wheels .
	$(BIN)/uv build -q --no-build-isolation --python $(BIN)/python --out-dir build/wheels tools

release: setup $(SAM_VENV)/.sam-$(SAM_VERSION) ## develop: make both distributions, the built stack, notes and checksums: build/release; DRY=1 with uncommitted changes
	.ci/release $(if $(DRY),--dry)

# uv is what SAM builds packages with: for Lambda's Python and processor, without having either.
$(SAM_VENV)/.sam-$(SAM_VERSION): $(SAM_LOCK)
	@$(PYTHON) $(IS_PYTHON) 2>/dev/null || $(NO_PYTHON)
	$(PYTHON) -m venv --clear $(SAM_VENV)
	awk '/^[^ #]/ { is_uv = /^uv==/ } is_uv' $(SAM_LOCK) > $(SAM_VENV)/uv.lock
	$(SAM_VENV)/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r $(SAM_VENV)/uv.lock
	$(SAM_VENV)/bin/uv pip install -q --python $(SAM_VENV)/bin/python --require-hashes -r $(SAM_LOCK)
	touch $@

# Of a build SAM CLI prints progress and errors on stderr, and on stdout the commands that would follow without make.
build: $(SAM_VENV)/.sam-$(SAM_VERSION) ## deploy: build the functions' packages in .aws-sam, as they are deployed
	$(SAM) build > /dev/null
	@echo "Built in .aws-sam: \`make deploy\` deploys it"

PACKAGED := build/packaged.yaml
package: build ## deploy: upload the functions' packages and write the template that names them, for CDK and Terraform: build/packaged.yaml; REGION=, PROFILE=, BUCKET=NAME
	@mkdir -p $(dir $(PACKAGED))
	$(SAM) package --output-template-file $(PACKAGED) $(if $(BUCKET),--s3-bucket "$(BUCKET)",--resolve-s3) \
	  $(if $(REGION),--region "$(REGION)") $(if $(PROFILE),--profile "$(PROFILE)")

$(CDK_VENV)/.ready: $(VENV)/.ready $(CDK_LOCK)
	$(BIN)/python -m venv --clear --without-pip $(CDK_VENV)
	$(BIN)/uv pip install -q --python $(CDK_VENV)/bin/python --require-hashes -r $(CDK_LOCK)
	touch $@

cdk: $(CDK_VENV)/.ready ## deploy: install what the CDK app of examples/cdk needs in Python; CDK itself needs Node

# For programs that are deployed without the stack, such as the examples.
layer: setup ## deploy: build the library as a layer for Lambda functions: build/layer
	rm -rf build/layer
	$(BIN)/uv pip install -q --target build/layer/python --python-version 3.14 --python-platform aarch64-manylinux2014 \
	  --only-binary :all: --require-hashes -r src/requirements.txt
	cp -R src/burstcache build/layer/python
	find build/layer -name __pycache__ -type d -prune -exec rm -rf {} +

# Lambda's /opt cannot be written, so what is not compiled here is compiled at every cold start. That takes a Python of the
# same version.
LAYER_PYTHON ?= 3.14
LAYER_PROCESSOR ?= aarch64
GATEWAY_LAYER ?= build/gateway-layer
gateway-layer: setup ## deploy: build the gateway as a Lambda extension: build/gateway-layer; LAYER_PYTHON=3.13, LAYER_PROCESSOR=x86_64
	rm -rf $(GATEWAY_LAYER)
	$(BIN)/uv pip install -q --target $(GATEWAY_LAYER)/burstcache-gateway --python-version $(LAYER_PYTHON) \
	  --python-platform $(LAYER_PROCESSOR)-manylinux2014 --only-binary :all: --require-hashes -r deploy/gateway/requirements.txt
	cp -R src/burstcache $(GATEWAY_LAYER)/burstcache-gateway
	mkdir $(GATEWAY_LAYER)/extensions
	cp deploy/gateway/lambda-extension $(GATEWAY_LAYER)/extensions/burstcache-gateway
	find $(GATEWAY_LAYER) -name __pycache__ -type d -prune -exec rm -rf {} +
	@python=$$(command -v python$(LAYER_PYTHON) $(BIN)/python$(LAYER_PYTHON) | head -1); \
	if "$${python:-false}" -m compileall -q -j 0 --invalidation-mode unchecked-hash $(GATEWAY_LAYER)/burstcache-gateway; then :; \
	else echo "make: without python$(LAYER_PYTHON) the layer has no bytecode, and its cold start takes longer" >&2; fi

validate: $(SAM_VENV)/.sam-$(SAM_VERSION) ## deploy: have SAM CLI and its linter check the template
	$(SAM) validate --lint

# What takes minutes comes after what may be wrong: credentials, region, answers.
CONFIG_ENV ?= default
CHOSEN = $(if $(STACK),--stack-name "$(STACK)") $(if $(REGION),--region "$(REGION)") $(if $(PROFILE),--profile "$(PROFILE)")
define SAM_DEPLOY
	$(MAKE) --no-print-directory $(SAM_VENV)/.sam-$(SAM_VERSION)
	$(SAM) build --config-env $(CONFIG_ENV) > /dev/null
	$(SAM_PATH) $(BIN)/burstcache deploy --config-env $(CONFIG_ENV) $(CHOSEN) $(if $(LOSE_STATE),--lose-state)
endef

deploy: setup ## deploy: ask what matters, with its price, write it to samconfig.toml and deploy; CONFIG_ENV=prod, STACK=, REGION=, PROFILE=NAME
	$(BIN)/burstcache config --config-env $(CONFIG_ENV) $(CHOSEN)
	$(SAM_DEPLOY)

upgrade: setup ## deploy: deploy this version with the answers that samconfig.toml has; options as deploy, LOSE_STATE=1 if databases may lose their state
	$(BIN)/burstcache config --check --config-env $(CONFIG_ENV) $(CHOSEN)
	$(SAM_DEPLOY)

delete: setup ## deploy: delete the stack, after its name was typed; options as deploy, WITH_BUCKETS=1 for the buckets that it made
	$(BIN)/burstcache delete --config-env $(CONFIG_ENV) $(CHOSEN) $(if $(WITH_BUCKETS),--with-buckets)

# The function is the one whose samples are in the event's folder; what it calls is the local run.
invoke: FUNCTION = $(shell echo $(notdir $(patsubst %/,%,$(dir $(EVENT)))) | $(PYTHON) -c \
	'print(input().title().replace("_", "") + "Function")')
invoke: setup $(SAM_VENV)/.sam-$(SAM_VERSION) ## deploy: run one function in Docker on EVENT=events/…/….json, against the local run (`make run`)
	@test -f "$(EVENT)" || { echo "make invoke: EVENT=events/…/….json is missing" >&2; exit 2; }
	$(SAM) build
	@mkdir -p build
	$(BIN)/burstcache local env --sam > build/env.json
	$(SAM) local invoke $(FUNCTION) --event $(EVENT)

# The dashboard's tests drive a browser: the one that is installed, else Playwright's own, else, where that cannot be had,
# Debian's (as root).
$(VENV)/.browser: $(VENV)/.ready
	command -v chromium >/dev/null || $(BIN)/playwright install --with-deps --only-shell chromium \
		|| { apt-get update -q && apt-get install -qy --no-install-recommends chromium; }
	touch $@

# Their versions are in pyproject.toml, package.json and go.mod, and all that these bring in the lock beside each.
$(CLIENTS_VENV)/.ready: $(VENV)/.ready $(CLIENTS_LOCK)
	$(BIN)/python -m venv --clear --without-pip $(CLIENTS_VENV)
	$(BIN)/uv pip install -q --python $(CLIENTS_VENV)/bin/python --require-hashes -r $(CLIENTS_LOCK)
	touch $@

$(CLIENTS_BUILT)/.node: $(CLIENTS)/node/package.json $(CLIENTS)/node/package-lock.json
	@mkdir -p $(@D)
	npm ci --silent --prefix $(CLIENTS)/node
	touch $@

$(CLIENTS_BUILT)/.go: $(wildcard $(CLIENTS)/go/*/*.go $(CLIENTS)/go/go.* $(CLIENTS)/go/s5cmd/go.*)
	@mkdir -p $(@D)
	cd $(CLIENTS)/go && $(GO) build -o $(CURDIR)/$(CLIENTS_BUILT)/ ./sdk ./rclone
	cd $(CLIENTS)/go/s5cmd && $(GO) build -o $(CURDIR)/$(CLIENTS_BUILT)/ github.com/peak/s5cmd/v2
	touch $@

clients: $(CLIENTS_VENV)/.ready $(CLIENTS_BUILT)/.node $(CLIENTS_BUILT)/.go ## develop: install real S3 clients, which need Node and Go

INSTALLED_CLIENTS := $(CLIENTS)/test_installed_clients.py

test-clients: setup clients ## develop: run those clients against an endpoint
	$(BIN)/python -m pytest -q $(INSTALLED_CLIENTS)

$(ENGINES_VENV)/.ready: $(VENV)/.ready $(ENGINES_LOCK)
	$(BIN)/python -m venv --clear --without-pip $(ENGINES_VENV)
	$(BIN)/uv pip install -q --python $(ENGINES_VENV)/bin/python --require-hashes -r $(ENGINES_LOCK)
	touch $@

# None of its packages needs its install script: the one that would compile brings its objects along.
$(ENGINES)/node/node_modules/.ready: $(ENGINES)/node/package.json $(ENGINES)/node/package-lock.json
	@if command -v npm >/dev/null; then set -ex; npm ci --silent --ignore-scripts --prefix $(ENGINES)/node; touch $@; \
	else echo "make: dynalite and the reference engine of JSONata are left out: they need Node, and there is no npm on the PATH" >&2; fi

engines: engine-ministack engine-dynalite ## develop: install second engines of AWS's APIs; those in Node if there is Node
engine-ministack: $(ENGINES_VENV)/.ready
engine-dynalite: $(ENGINES)/node/node_modules/.ready

# In one process: each would start an engine of its own.
test-engines test-engines-short: setup $(addprefix engine-,$(or $(ENGINE),ministack dynalite))
	PYTHONPATH=tests $(BIN)/python -m engines $(if $(filter %-short,$@),--short) $(addprefix --engine ,$(ENGINE))

test-engines: ## develop: run the tests that use DynamoDB against engines other than moto; ENGINE=dynalite or ministack
test-engines-short: ## develop: run a minute of them

test: setup $(VENV)/.browser ## develop: run all tests but weekly ones and those against a deployed stack or by installed clients
	$(TEST) -m 'not weekly' --ignore tests/e2e --ignore $(INSTALLED_CLIENTS)

test-weekly: setup $(VENV)/.browser ## develop: run the tests that `make test` leaves out, as second representatives of their kind
	$(TEST) -m weekly --ignore tests/e2e --ignore $(INSTALLED_CLIENTS)

test-fast: setup ## develop: run the quick tests: no local run, no linter, no test marked as slow, a tenth of each random search
	@mkdir -p build; $(QUICK) $(FAST_ASIDE) > build/test-fast.txt 2>&1 & aside=$$!; trap "kill $$aside" INT; \
	$(QUICK) $(filter-out $(FAST_ASIDE),$(FAST)); code=$$?; \
	wait $$aside || code=$$?; cat build/test-fast.txt; exit $$code

check: lint types audit test ## develop: everything that must hold before a commit

audit: setup ## develop: look for known vulnerabilities in what the locks install; without a network it says that it could not
	$(BIN)/python .ci/audit $(LOCK) $(SAM_LOCK)

SCRIPTS := $(wildcard instance/*.sh) .ci/run .ci/full deploy/gateway/lambda-extension
lint: setup ## develop: check format, rules, imports and the template, changing nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	@if test -x $(BIN)/shellcheck; then set -x; $(BIN)/shellcheck $(SCRIPTS); \
	else echo "make: scripts are not linted: shellcheck has no wheel for this machine" >&2; fi
	$(BIN)/python -m instance --check
	$(BIN)/python -m deploy.grafana --check
	$(BIN)/cfn-lint --regions eu-central-1 us-east-1 -- template.yaml examples/*/template.yaml

format: setup ## develop: format the code and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python -m instance
	$(BIN)/python -m deploy.grafana

template: setup ## develop: write the programs in instance/ into template.yaml, and its dashboard for Grafana, as `make format` does, too
	$(BIN)/python -m instance
	$(BIN)/python -m deploy.grafana

capacity: setup ## develop: write the tables of docs/operate/capacity.md anew, after a limit in the code has changed
	$(BIN)/python -m benchmarks.support.capacity_page

types: setup ## develop: check the types of everything written in Python
	$(BIN)/mypy

SITE ?= build/site
site: setup ## develop: build the documentation as a site to read without a network: build/site/index.html; a dead link fails it
	rm -rf $(SITE)
	$(BIN)/python -m sphinx -q -W -j auto -c docs -d $(SITE)-pages . $(SITE)

clean: ## develop: remove .venv, caches and what a local run left
	rm -rf $(VENV) $(SAM_VENV) $(CLIENTS_VENV) $(ENGINES_VENV) $(CDK_VENV) $(CLIENTS)/node/node_modules $(ENGINES)/node/node_modules build .aws-sam examples/*/.aws-sam examples/*/cdk.out .burstcache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache *.egg-info src/*.egg-info tools/*.egg-info
	find src cloudformation instance tools tests benchmarks examples research -name __pycache__ -type d -prune -exec rm -rf {} +
