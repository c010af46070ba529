# Everything is built with the same flags, so that builds, tests and the linter share one build cache; test/binaries uses them too.
export CGO_ENABLED := 0
export GOFLAGS := -buildvcs=false -trimpath -gcflags=all=-dwarf=false

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Put before the names of the images: the registry and the organization to push to, with a slash at the end.
IMAGE_PREFIX ?=
FUZZTIME ?= 60s
# More flags for `go test`, such as TESTFLAGS='-run Join -v'.
TESTFLAGS ?=
# How tests are shown: https://pkg.go.dev/gotest.tools/gotestsum#readme-output-format
TESTFORMAT ?= pkgname

OUTPUT := _output
GO_TOOL := go tool -modfile=go.tools.mod
GOLANGCI_LINT := $(GO_TOOL) golangci-lint
# $(call gotest,NAME) runs `go test`; each test event is kept in NAME.json.
gotest = mkdir -p $(OUTPUT)/test && $(GO_TOOL) gotestsum --format $(TESTFORMAT) --hide-summary=skipped \
	--jsonfile $(OUTPUT)/test/$(1).json -- $(TESTFLAGS)
# Module directories whose go.mod can be checked with `go mod tidy`; go.tools.mod can't, since its packages are not ours.
MODULES := . test/controlplane test/agents test/agents/about-api test/monitoring

VERSION_PACKAGE := open-cluster-management.io/ocm/pkg/version
LDFLAGS := -s -w -X $(VERSION_PACKAGE).versionFromGit=$(VERSION) \
	-X $(VERSION_PACKAGE).commitFromGit=$(shell git rev-parse --short HEAD 2>/dev/null)

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z][a-z0-9-]*:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Build

.PHONY: build
build: ## Build the commands into bin/
	go build -ldflags '$(LDFLAGS)' -o bin/ ./pkg/cmd/...

.PHONY: image
image: ## Build the images as OCI archives in _output/, without a container engine (VERSION, IMAGE_PREFIX)
	GOOS=linux go build -ldflags '$(LDFLAGS)' -o $(OUTPUT)/image/ ./pkg/cmd/...
	go run ./hack/ociimage -o $(OUTPUT)/import-controller.tar -ref $(IMAGE_PREFIX)import-controller:$(VERSION) \
		$(OUTPUT)/image/import-controller
	@# The operator of a hub writes the whole command line, which begins with /registration.
	go run ./hack/ociimage -o $(OUTPUT)/registration.tar -ref $(IMAGE_PREFIX)registration:$(VERSION) -entrypoint=false \
		$(OUTPUT)/image/registration

.PHONY: prebuild
prebuild: ## Build the control plane and the agents that tests and the demo run; minutes once, then nothing
	go run ./test/binaries/prebuild

.PHONY: clean
clean: ## Remove what was built here; the control plane and the agents stay in the user's cache
	rm -rf bin $(OUTPUT)

##@ Try

.PHONY: demo
demo: prebuild ## Import two clusters into a hub, all on this machine; KEEP=1 leaves them running until Ctrl-C
	@# Not go run, which reports an error after Ctrl-C.
	go build -o $(OUTPUT)/demo ./test/demo
	$(OUTPUT)/demo

##@ Test

.PHONY: test
test: test-unit test-integration test-e2e ## Run all tests

.PHONY: test-unit
test-unit: ## Run the tests that start nothing
	$(call gotest,unit) -timeout 5m ./pkg/... ./providers/... ./hack/... ./test/binaries/... ./test/process/... ./test/cloud/... ./test/fleet/... ./test/benchmark/...
	@# The cache of tests does not see the manifests, which are outside of that module.
	go -C test/monitoring test -count=1 ./...

.PHONY: test-integration
test-integration: prebuild ## Run the tests against real API servers
	$(call gotest,integration) -timeout 20m -count=1 -p 1 ./test/integration/... ./test/harness/... ./test/podrunner/...

.PHONY: test-e2e
test-e2e: prebuild ## Run the tests in which real agents join a real hub
	$(call gotest,e2e) -timeout 20m -count=1 -p 1 ./test/e2e/... ./test/ocmhub/...

.PHONY: fuzz
fuzz: ## Fuzz the readers of kubeconfigs, stanzas, policies and tokens, each for FUZZTIME (60s)
	go test -run '^$$' -fuzz=FuzzFromKubeconfig -fuzztime=$(FUZZTIME) ./pkg/restconfig
	go test -run '^$$' -fuzz=FuzzParse -fuzztime=$(FUZZTIME) ./pkg/restconfig
	go test -run '^$$' -fuzz=FuzzParse -fuzztime=$(FUZZTIME) ./pkg/credential/stanza
	go test -run '^$$' -fuzz=FuzzParse -fuzztime=$(FUZZTIME) ./pkg/policy
	go test -run '^$$' -fuzz=FuzzToken -fuzztime=$(FUZZTIME) ./providers/kubeconfig

.PHONY: bench
bench: prebuild bench-go ## Measure how long imports take, and the price of single functions
	go run ./test/benchmark

# The hot parts: whose Secret it is, reading it, answers of a cluster, rendering. Six runs are what benchstat needs to know its error.
BENCH_GO := go test -run '^$$' -bench '^Benchmark(IsManagedClusterOwner|FromKubeconfig|SanitizingTransport|Plan)$$' -count=6 \
	./providers/kubeconfig ./pkg/restconfig ./pkg/hub
# A git revision to compare with. Without one it is what an earlier BASE left in $(OUTPUT)/bench/old.txt, or nothing.
BASE ?=
.PHONY: bench-go
bench-go: ## Measure single functions and compare them by benchstat with those of a revision (BASE)
	@mkdir -p $(OUTPUT)/bench
	@if [ -n "$(BASE)" ]; then set -e; \
		trap 'git worktree remove --force $(OUTPUT)/bench/base' EXIT; \
		git worktree add --detach $(OUTPUT)/bench/base "$(BASE)" >/dev/null; \
		(cd $(OUTPUT)/bench/base && $(BENCH_GO)) >$(OUTPUT)/bench/old.txt; \
	fi
	$(BENCH_GO) >$(OUTPUT)/bench/new.txt || { cat $(OUTPUT)/bench/new.txt; exit 1; }
	@cd $(OUTPUT)/bench && go tool -modfile=$(CURDIR)/go.tools.mod benchstat $$([ ! -f old.txt ] || echo old.txt) new.txt

# Parameters of bench-fleet, which `go run ./test/benchmark/fleet -h` explains: CLUSTERS=10,100 DEAD=0 LATENCY=20ms,200ms
# WORKERS=64 OUT=folder, and all others as FLEETFLAGS='--peer= --profile'.
FLEETFLAGS ?=
.PHONY: bench-fleet
bench-fleet: prebuild ## Measure the import of a whole fleet of simulated clusters (CLUSTERS, DEAD, LATENCY, WORKERS, OUT)
	@# Not go run, which reports an error after Ctrl-C.
	go build -o $(OUTPUT)/fleet ./test/benchmark/fleet
	$(OUTPUT)/fleet $(if $(CLUSTERS),--clusters=$(CLUSTERS)) $(if $(DEAD),--dead=$(DEAD)) $(if $(LATENCY),--latency=$(LATENCY)) \
		$(if $(WORKERS),--workers=$(WORKERS)) $(if $(OUT),--out=$(OUT)) $(FLEETFLAGS)

# Parameters of soak, which `go run ./test/benchmark/soak -h` explains: DURATION=30m CLUSTERS=60, and all others as
# SOAKFLAGS='--fault-every=1m'.
DURATION ?= 30m
SOAKFLAGS ?=
.PHONY: soak
soak: prebuild ## Let things break for long and look for what is lost, imported twice or leaked (DURATION, CLUSTERS)
	@# Not go run, which reports an error after Ctrl-C.
	go build -o $(OUTPUT)/soak ./test/benchmark/soak
	$(OUTPUT)/soak --duration=$(DURATION) $(if $(CLUSTERS),--clusters=$(CLUSTERS)) $(SOAKFLAGS)

##@ Check

.PHONY: lint
lint: ## Run the linters
	$(GOLANGCI_LINT) run

.PHONY: fmt
fmt: ## Format the code and sort the imports
	$(GOLANGCI_LINT) fmt

.PHONY: verify
verify: verify-modules verify-docs vet lint ## Check everything that needs no cluster: modules, docs, vet, format and linters

.PHONY: verify-modules
verify-modules: ## Check that go.mod and go.sum are tidy
	@for module in $(MODULES); do \
		echo "go mod tidy -diff in $$module"; (cd $$module && go mod tidy -diff) || exit 1; \
	done

.PHONY: verify-docs
verify-docs: ## Check the links in the documentation and the make targets that it names
	go test ./hack/docs

.PHONY: vet
vet: ## Run go vet
	go vet ./...
