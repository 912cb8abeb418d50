# Xebec's tasks. `make help` lists them. Nothing needs to be installed but Go:
# tools are built at the versions below into .tmp/bin.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GOLANGCI_VERSION := v2.15.0
BENCHSTAT_VERSION := v0.0.0-20260908200009-22c9c6c9d4da

TOOLS := $(CURDIR)/.tmp/bin
GOLANGCI := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)
PROFILE ?= cmd/xebec/proxy.pgo
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
PKG ?= ./...
FUZZTIME ?= 60s
COUNT ?= 6
REQUESTS ?= 100000
LOSS_CHANGES ?= 1000
SEED ?= 1
CONFIGURATIONS ?= 200

.PHONY: help
help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the binary into bin/xebec, optimised by a profile (PROFILE=off builds faster)
	go build -trimpath -pgo=$(PROFILE) -o bin/xebec ./cmd/xebec

.PHONY: profile
profile: ## Take the profile that `make build` optimises by, under the load of bench/proxy
	cd bench/proxy && go run ./run -proxies xebec -rounds 1 -seconds 9 -profile $(CURDIR)/$(PROFILE) \
	-only h1,h1-256,post-16k,get-64k,close,h2,grpc,grpc-16x8,tls,handshake-ecdsa

.PHONY: test
test: ## Run the short tests (PKG=./... narrows)
	go test -short $(PKG)

.PHONY: test-race
test-race: ## Run the short tests under the race detector (PKG=./... narrows)
	go test -race -short $(PKG)

.PHONY: test-long
test-long: ## Run every test, the long ones too
	go test -timeout 30m $(PKG)

.PHONY: lint
lint: $(GOLANGCI) ## Report what the linters find
	$(GOLANGCI) run --allow-parallel-runners $(PKG)

.PHONY: lint-bench
lint-bench: $(GOLANGCI) ## Report what the linters find in the comparisons with other proxies, clients and servers, modules of their own
	cd bench/proxy && $(GOLANGCI) run --allow-parallel-runners ./...
	cd bench/client && $(GOLANGCI) run --allow-parallel-runners ./...
	cd bench/controlplane && $(GOLANGCI) run --allow-parallel-runners ./...

.PHONY: fmt
fmt: $(GOLANGCI) ## Format the code
	$(GOLANGCI) fmt $(PKG)

$(GOLANGCI):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv $(TOOLS)/golangci-lint $@

.PHONY: generate
generate: conformance ## Rewrite everything that is generated
	go generate ./...

.PHONY: check-generate
check-generate: ## Fail if something generated, or go.mod, is out of date
	go run ./tools/conformance -check
	go mod tidy -diff
	@sums() { git grep -lI '^// Code generated .* DO NOT EDIT\.$$' -- '*.go' | while read -r f; do echo "$$f $$(git hash-object "$$f")"; done; }; \
	before=$$(sums); go generate ./...; \
	diff <(echo "$$before") <(sums) || { echo 'generated files were out of date and have been rewritten: commit them' >&2; exit 1; }

.PHONY: conformance
conformance: ## Rewrite docs/conformance.md from the tests' claims
	go run ./tools/conformance

.PHONY: golden
golden: ## Rewrite the golden files of the tests; read the diff before you commit it
	@grep -rlE --include='*_test.go' --exclude-dir='.*' --exclude-dir=bench 'flag\.Bool\("update"|datadriven\.' * | \
	xargs -r -n1 dirname | sort -u | while read -r dir; do \
		flags=; \
		if grep -q 'flag\.Bool("update"' "$$dir"/*_test.go; then flags+=' -update'; fi; \
		if grep -q 'datadriven\.' "$$dir"/*_test.go; then flags+=' -rewrite'; fi; \
		go test "./$$dir" $$flags; \
	done

.PHONY: fuzz
fuzz: ## Run every fuzz target, each for FUZZTIME=60s
	@grep -rE --include='*_test.go' --exclude-dir='.*' --exclude-dir=bench '^func Fuzz[A-Za-z0-9_]*\(' * | sort | \
	while IFS=: read -r file line; do \
		target=$${line#func }; target=$${target%%(*}; \
		echo "== $$(dirname "$$file") $$target"; \
		go test "./$$(dirname "$$file")" -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x </dev/null; \
	done

.PHONY: bench
bench: ## Run the benchmarks COUNT=6 times, for benchstat (PKG=./... narrows)
	@mkdir -p .tmp
	go test -run '^$$' -bench . -benchmem -count $(COUNT) $(PKG) | tee .tmp/bench.txt
	go run golang.org/x/perf/cmd/benchstat@$(BENCHSTAT_VERSION) .tmp/bench.txt

.PHONY: bench-controlplane
bench-controlplane: ## Compare the management server with its peers on this machine
	cd bench/controlplane && go run ./run

.PHONY: bench-proxy
bench-proxy: ## Compare the proxy with nginx, HAProxy and Envoy on this machine
	cd bench/proxy && go run ./run

.PHONY: bench-client
bench-client: ## Compare the xDS client library with its peers on this machine
	cd bench/client && go run ./run

.PHONY: interop
interop: ## Test against real clients, and beside a real Envoy (e2e/setup.sh fetches them)
	bash e2e/setup.sh
	go test -tags interop -count 1 -timeout 20m ./e2e/...

.PHONY: soak
soak: ## Make 100,000 mixed requests through the proxy and reconcile what was counted (REQUESTS=100000)
	bash e2e/setup.sh
	XEBEC_SOAK_REQUESTS=$(REQUESTS) go test -tags interop -count 1 -timeout 60m -run '^TestSoak$$' -v ./e2e/proxy

.PHONY: loss
loss: ## Change a proxy's configuration LOSS_CHANGES=1000 times in each variant, under load, and look for losses
	bash e2e/setup.sh
	XEBEC_LOSS_CHANGES=$(LOSS_CHANGES) go test -tags interop -count 1 -timeout 60m -v ./e2e/living

.PHONY: same
same: ## Compare the proxy with Envoy in CONFIGURATIONS=200 generated configurations, chosen by SEED=1
	bash e2e/setup.sh
	XEBEC_SAME_SEED=$(SEED) XEBEC_SAME_CONFIGURATIONS=$(CONFIGURATIONS) go test -tags interop -count 1 -timeout 60m -run '^TestGeneratedSameAsEnvoy$$' -v ./e2e/living

.PHONY: ci
ci: ## Run what continuous integration runs
	bash .ci/run
