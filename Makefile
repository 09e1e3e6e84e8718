# Tools are pinned in hack/tools/go.mod and run from there; nothing is installed.
TOOL := go tool -modfile=hack/tools/go.mod
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
GO_BUILD := CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)'
FUZZTIME ?= 10s
TIMEOUT ?= 25m

.DEFAULT_GOAL := help
.PHONY: help demo test build lint generate verify-generated bench fuzz assets

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: build assets ## one control plane and two runtimes, live; EXIT=1 ends by itself
	@go run ./integration/demo $(if $(EXIT),--exit)

test: build assets ## all tests, over real API servers and a real registry
	go test -timeout $(TIMEOUT) ./...

build: ## both programs into bin/
	@mkdir -p bin
	$(GO_BUILD) -o bin/ ./kcp-publisher ./skr-agent

lint: ## gofmt, go vet, staticcheck
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "run gofmt -w on:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	$(TOOL) staticcheck ./...

generate: ## deepcopy functions and CRDs
	$(TOOL) controller-gen object paths=./apis/...
	$(TOOL) controller-gen crd paths=./apis/... output:crd:dir=charts/kcp-publisher/crds
	cd charts && for kind in kymas manifests moduletemplates modulereleasemetas; do cp kcp-publisher/crds/*_$$kind.yaml skr-agent/crds/; done

verify-generated: generate ## fail when generated files are not current
	@git diff --exit-code -- apis charts || { echo "generated files are not current: run make generate and commit"; exit 1; }

bench: build assets ## benchmarks as a table, also in bench/
	@go run ./integration/bench

fuzz: ## every fuzz target for FUZZTIME (10s)
	@for pkg in $$(go list ./bundle/... ./skr-agent/internal/render ./kcp-publisher/internal/component); do \
	  for target in $$(go test -list '^Fuzz' $$pkg | grep ^Fuzz); do \
	    echo "$$pkg $$target"; go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; done

assets:
	@go run ./hack/assets/cmd/assets >/dev/null
