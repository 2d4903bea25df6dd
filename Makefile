# Weir. `make help` lists what there is.

SHELL       := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
GO          ?= go
BIN         := bin/weir
VERSION     := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# Pinned tools; `go run` fetches and checks them.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
EXHAUSTIVE  := github.com/nishanths/exhaustive/cmd/exhaustive@v0.17.1

FUZZTIME ?= 30s

.DEFAULT_GOAL := help
.PHONY: help run build console test unit browser e2e e2e-here race chaos schemathesis fuzz lint fmt bench clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: console ## build bin/weir
	@command -v $(GO) >/dev/null || { echo "go is missing: install Go 1.26 or later"; exit 1; }
	$(GO) build -trimpath -ldflags "-X main.version=$(VERSION)" -o $(BIN) ./cmd/weir

# The pages are built into the binary. Without npm it is built without them, and
# /console/ says so; in CI that fails. Nothing is built whose sources are older.
CONSOLE     := ingest/console
CONSOLE_SRC := $(shell find $(CONSOLE)/src $(CONSOLE)/public -type f 2>/dev/null) $(addprefix $(CONSOLE)/,index.html vite.config.ts compress.ts tsconfig.json)

console: ## build the console's pages (npm comes with Node.js, 20.19 or later)
	@if command -v npm >/dev/null; then $(MAKE) -s --no-print-directory $(CONSOLE)/dist/index.html; else \
		echo "NOT BUILT: the console's pages. Missing: npm, which comes with Node.js."; \
		[ -z "$${CI:-}" ]; \
	fi

$(CONSOLE)/dist/index.html: $(CONSOLE)/node_modules/.package-lock.json $(CONSOLE_SRC)
	cd $(CONSOLE) && npm run --silent build
	@touch $@

$(CONSOLE)/node_modules/.package-lock.json: $(CONSOLE)/package.json $(CONSOLE)/package-lock.json $(CONSOLE)/.npmrc
	cd $(CONSOLE) && npm ci
	@touch $@

run: build ## start all of Weir here, with an embedded broker and engine, and show what it does
	$(BIN) dev --show

test: unit browser e2e ## all tests: unit, property, fuzz corpus, and end to end on real brokers

# Begun first, or the last of them would end alone. Tests that wait for processes
# leave the processors to others: so three packages at once. In CI, those that only
# work do it politely; at home go test keeps what passed, which -exec forbids.
POLITE  := $(if $(CI),-exec "'$(CURDIR)/.ci/polite'")
LONGEST := ./cmd/weir/e2e ./cmd/weir/faultsim ./ingest ./processor/sink ./processor/sink/warehouse ./processor/lane ./processor/audit

# go vet has seen all but what only the tag chaos leaves out: go test need not again.
# A skip is not seen where its package passes: this says what is not run.
unit: console ## tests that need nothing but Go (npm for the engine; python3, java, node, bash and curl for the pages' examples)
	@command -v npm >/dev/null || { \
		echo "NOT RUN: the tests on the ClickHouse engine, and the console's. Missing: npm, which comes with Node.js and fetches the engine."; \
		[ -z "$${CI:-}" ]; }
	@missing=""; for tool in python3 java node npm bash curl; do command -v $$tool >/dev/null || missing="$$missing $$tool"; done; \
	[ -z "$$missing" ] || { \
		echo "NOT RUN: examples of docs/clients.md, docs/legacy.md and docs/policy-api.md that need what is missing:$$missing."; \
		[ -z "$${CI:-}" ]; }
	@for tool in java mvn; do command -v $$tool >/dev/null || { \
		echo "NOT RUN: the comparison of phone numbers with Google's libphonenumber. Missing: $$tool."; \
		[ -z "$${CI:-}" ]; }; done
	@! command -v npm >/dev/null || (cd $(CONSOLE) && npm run --silent test)
	$(GO) vet -tags e2e,chaos,mutations ./... && $(GO) vet ./cmd/weir
	$(GO) test -timeout 30m -vet=off -p 3 $(POLITE) $(LONGEST) ./...

# Chromium is the one on PATH, or the one that WEIR_CHROMIUM names, or else comes
# from npm. Where there is none this says so; in CI it fails.
browser: build ## the console in a real Chromium, on a real weir dev
	@if command -v npm >/dev/null; then \
		$(MAKE) -s --no-print-directory $(CONSOLE)/test/node_modules/.package-lock.json && cd $(CONSOLE)/test && npm run --silent check && npm run --silent test; \
	else \
		echo "NOT RUN: the console's browser tests. Missing: npm, which comes with Node.js."; \
		[ -z "$${CI:-}" ]; \
	fi

# Without its scripts: Chromium comes in the package. It asks for a newer Node
# than needed, for a part of it that is not used.
$(CONSOLE)/test/node_modules/.package-lock.json: $(CONSOLE)/test/package.json $(CONSOLE)/test/package-lock.json $(CONSOLE)/test/.npmrc
	cd $(CONSOLE)/test && npm ci --ignore-scripts --loglevel=error
	@touch $@

# Apache Kafka comes from Maven and needs a JDK. Without them this says so; in
# CI it fails.
e2e: ## end to end on Apache Kafka
	@missing=""; command -v java >/dev/null || missing="$$missing java (a JDK, 17 or later)"; \
	command -v mvn >/dev/null || missing="$$missing mvn (Apache Maven, 3.8 or later)"; \
	if [ -n "$${KAFKA_BROKERS:-}" ]; then $(MAKE) --no-print-directory e2e-here; \
	elif [ -z "$$missing" ]; then mkdir -p bin && $(GO) run ./deploy/local/cmd/kafka -log bin/kafka.log -- $(MAKE) --no-print-directory e2e-here; \
	else \
		echo "NOT RUN: the end-to-end tests on Apache Kafka. Missing:$$missing. Or name a cluster in KAFKA_BROKERS."; \
		[ -z "$${CI:-}" ]; \
	fi

# On the cluster that KAFKA_BROKERS names.
e2e-here:
	$(GO) test -tags e2e -timeout 50m -count 1 -v -run Apache ./cmd/weir/e2e
	$(GO) test -p 1 -count 1 ./topics ./processor/lane
	$(GO) test -tags e2e -p 1 -count 1 -v -run 'AtLength|Replicas' ./processor/sink ./processor/erase ./deploy/embedded/engine/replicatest

race: ## unit tests under the race detector
	$(GO) test -race -p 1 -timeout 30m ./...

# The first line is on workers and brokers, each scenario on a Kafka of its own:
# one line on each, all the rest in bin/chaos.log. WEIR_SEED repeats requests and
# faults, WEIR_CHAOS_SCALE=2 makes the runs twice as long. It takes root, iproute2,
# iptables and libfaketime (Debian: faketime) beside what make e2e takes; a scenario fails
# that lacks them.
chaos: ## long runs: the code broken on purpose, thousands of fault schedules, and on Apache Kafka workers and brokers killed, clocks set wrong, tails lost, networks cut
	mkdir -p bin
	$(GO) run ./cmd/weir/mutations
	$(GO) test -tags mutations -timeout 60m -count 1 -run EveryCheckIsNeeded ./processor/audit
	WEIR_CHAOS=1 $(GO) test -timeout 60m -count 1 -v -run 'TestFaults|TestDecidedAgain' ./cmd/weir/faultsim
	$(GO) test -tags e2e -timeout 180m -count 1 -v -run TestChaos ./cmd/weir/e2e 2>&1 | tee bin/chaos.log | grep --line-buffered -E 'CHAOS|WEIR_SEED|^panic|^FAIL|--- FAIL'
	$(GO) test -tags e2e -timeout 20m -count 1 -p 1 ./deploy/local/...
	WEIR_CHAOS=1 $(GO) test -tags e2e,chaos -timeout 40m -count 1 -v -run 'AtLength|EmptyDefinition' ./processor/sink
	$(GO) run ./deploy/local/cmd/kafka -log bin/kafka.log -- $(GO) test -tags chaos -timeout 40m -count 1 -v -run PastTheLastEpoch ./processor/stream
	$(GO) test -timeout 20m -count 1 -v ./ingest -run 'MillionBodies$$|CrowdOf' -bodies 1000000 -crowd 8000
	WEIR_CHAOS=1 $(GO) test -timeout 20m -count 1 -v ./processor/admission -run TestRounds -rapid.checks=2000
	WEIR_CHAOS=1 $(GO) test -timeout 20m -count 1 -v ./schemas ./processor/content ./cmd/weir/e2e -run TestSecond
	WEIR_CHAOS=1 $(GO) test -timeout 40m -count 1 -v ./processor/recipient -run TestSecond
	$(GO) test -timeout 20m -count 1 -v ./processor/recipient -run 'Spellings|KeysAreStable|FastPath' -spellings=1000000 -beginnings=4

# From PyPI, into bin/: so it is no part of make test.
schemathesis: build ## schemathesis against the running HTTP API, as openapi.yaml describes it
	ingest/schemathesis.sh --max-time 180

fuzz: ## fuzz each target for FUZZTIME (30s)
	@$(GO) list ./... | while read -r pkg; do \
		for f in $$($(GO) test -list '^Fuzz' $$pkg 2>/dev/null | grep '^Fuzz' || true); do \
			echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$pkg; \
		done; \
	done

lint: ## formatting, vet, staticcheck, exhaustive switches, tidy modules
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "gofmt these:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./... && $(GO) vet -tags e2e,chaos,mutations ./...
	$(GO) run $(STATICCHECK) -tags e2e,chaos,mutations ./...
	$(GO) run $(EXHAUSTIVE) -d -typeonly "weirhq/weir" ./...
	$(GO) mod tidy -diff
	$(GO) -C deploy/prometheus/promql vet ./... && $(GO) -C deploy/prometheus/promql mod tidy -diff

fmt: ## format the code
	gofmt -w $$(git ls-files '*.go')

bench: ## admission, restore, takeover, delays, wide limits and an overloaded API on Apache Kafka
	$(GO) run ./bench/admission
	$(GO) run ./bench/restore
	$(GO) run ./bench/restore -takeover kill
	$(GO) run ./bench/restore -takeover term
	$(GO) run ./bench/delay
	$(GO) run ./bench/wide -measure rate
	$(GO) run ./bench/wide -measure hot
	$(GO) run ./bench/wide -measure latency
	$(GO) run ./bench/overload
	$(GO) run ./bench/sink

clean: ## remove what was built (not .weir, which has data)
	rm -rf bin $(CONSOLE)/node_modules $(CONSOLE)/dist/assets
	rm -f $(CONSOLE)/dist/*.*
