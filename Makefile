# Tools are pinned in hack/tools/go.mod and run from there; nothing is installed.
TOOL := go tool -modfile=hack/tools/go.mod
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Only images and releases use -trimpath: Go compiles each package again for a build with that flag.
GO_BUILD := CGO_ENABLED=0 go build -ldflags '-s -w -X main.version=$(VERSION)'
FUZZTIME ?= 10s
TIMEOUT ?= 45m
LONG_TIMEOUT ?= 120m
HISTORIES ?= 10000
KIND_TIMEOUT ?= 60m
ARCH ?= $(shell go env GOARCH)
IMAGES ?= ghcr.io/kyma-pull
FOLDERS := $(wildcard apis bundle charts hack integration internal kcp-publisher skr-agent)
GENERATED := ':(glob)apis/**/zz_generated.*.go' ':(glob)charts/*/crds/**' ':(glob)charts/*/README.md' docs/reference/cli docs/reference/metrics.md \
  docs/reference/annotations-and-labels.md docs/reference/conditions-and-reasons.md docs/reference/kyma-settings.md charts/kcp-publisher/policy/settings.yaml charts/kcp-publisher/rbac/operator.yaml \
  docs/reference/configuration.md docs/reference/crds.md docs/reference/wire-format.md

# The programs are built without C, so they are tested without it: linking seventy test binaries takes a quarter less.
export CGO_ENABLED := 0

.DEFAULT_GOAL := help
.PHONY: help prepare kind-nodes demo recording chaos soak try-module release manifests release-push test-release test test-long histories test-kind test-ui picture docs lint-docs vulncheck test-race test-oracle test-cosign test-kubernetes test-s3 build images lint generate verify-generated bench bench-fleet bench-flux fuzz assets

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Long steps print their progress: with an empty cache, the first run compiles for minutes.
demo: ASSETS_FLAGS := -alerts=false
demo: assets ## one control plane and two runtimes, live; EXIT=1 ends by itself
	@hack/elapsed "compiling kcp-publisher and skr-agent" $(MAKE) --no-print-directory build
	@hack/elapsed "compiling the demo" go build -o bin/demo ./integration/demo
	@KYMA_PULL_PROGRAMS="$(CURDIR)/bin" bin/demo $(if $(EXIT),--exit)

recording: build assets ## the recording of the demo that the README shows, docs/images/demo.svg
	@go build -o bin/demo ./integration/demo && KYMA_PULL_PROGRAMS="$(CURDIR)/bin" bin/demo --exit --record docs/images/demo.svg

try-module: build assets ## a module through install, upgrade, faults, undo and removal: COMPONENT=NAME FROM=1.0.0 TO=1.1.0 COMPONENTS=WHERE [TEMPLATES=FOLDER] [FLAGS=...] [KIND=1]
	@$(if $(KIND),trap : INT TERM; started=$$(hack/offline/kind-node/dockerd start) || exit;) \
	  go run ./integration/try/cmd $(if $(KIND),--kind) $(if $(COMPONENT),--component '$(COMPONENT)') $(if $(FROM),--from '$(FROM)') $(if $(TO),--to '$(TO)') \
	  $(if $(COMPONENTS),--components '$(COMPONENTS)') $(if $(TEMPLATES),--templates '$(TEMPLATES)') $(FLAGS); \
	  code=$$?; $(if $(KIND),[ -z "$$started" ] || hack/offline/kind-node/dockerd stop;) exit $$code

# The program is built first, because a `go run` that Ctrl-C kills leaves a folder behind.
chaos: build assets ## random faults for DURATION (5m) in a fleet of 2 REAL and 18 SIMULATED runtimes, and a checker; SEED=N for a plan again; NETWORK=1, CLOCKS=1 for more kinds
	@go build -o bin/chaos ./integration/chaos/cmd && KYMA_PULL_PROGRAMS="$(CURDIR)/bin" TMPDIR="$$(hack/scratch)" bin/chaos \
	  --duration $(or $(DURATION),5m) $(if $(SEED),--seed $(SEED)) $(if $(REAL),--real $(REAL)) $(if $(SIMULATED),--simulated $(SIMULATED)) $(if $(NETWORK),--network) $(if $(CLOCKS),--clocks) $(FLAGS)

soak: ## the same fleet for DURATION (1h) with nothing broken: whether memory, goroutines and files grow, as a table, also in .chaos/soak.md
	@$(MAKE) --no-print-directory chaos DURATION=$(or $(DURATION),1h) FLAGS="--soak $(FLAGS)"

# The scenarios come first, because they take half of the time, and the other packages run while they wait. make lint vets.
# Random tests repeat the same cases here: $$RAPID_SEED and hack/suite define them.
test: build assets bin/lend ## the short suite, over real API servers and a real registry
	GOTMPDIR="$${GOTMPDIR:-$${TMPDIR:-/tmp}}" TMPDIR="$$(hack/scratch)" KYMA_PULL_PROGRAMS="$(CURDIR)/bin" RAPID_SEED=1 \
	  KUBEBUILDER_ASSETS="$$(dirname "$$(go run ./hack/assets/cmd/assets | awk '$$1 == "kube-apiserver" {print $$2}')")" \
	  bin/lend $(TOOL) gotestsum --format standard-quiet --hide-summary skipped \
	  --packages './integration/scenario ./...' -- -vet=off -ldflags='-s -w' -timeout $(TIMEOUT)
	@echo "make test: passed"

# Every part of it can run alone. The bucket and the release come with the programs that they need.
test-long: build assets bin/lend ## the long suite: expensive tests of code that seldom changes, for one to two hours; CONTRIBUTING.md lists the folders
	set -a; eval "$$(go run ./hack/browser)"; TMPDIR="$$(hack/scratch)" KYMA_PULL_PROGRAMS="$(CURDIR)/bin" KYMA_PULL_LONG=1 \
	  KUBEBUILDER_ASSETS="$$(dirname "$$(go run ./hack/assets/cmd/assets | awk '$$1 == "kube-apiserver" {print $$2}')")" \
	  bin/lend go test -count=1 -vet=off -ldflags='-s -w' -timeout $(LONG_TIMEOUT) $$(hack/suite/list)
	$(MAKE) histories
	$(MAKE) test-s3
	$(MAKE) test-cosign
	$(MAKE) test-kubernetes
	$(MAKE) chaos DURATION=10m

# The scenarios that need pods, nodes and a network; the others run with make test. They share one fleet, so the run ends with
# the first failure.
# The test handles Ctrl-C and removes the clusters. The shell outlives it to stop the Docker that it started.
test-kind: build ## all scenarios on kind clusters; RUN=TestX some, KEEP=1 leaves them up, KIND_NODE_IMAGE=NAME for other nodes, RELEASE=dist installs a release
	@trap : INT TERM; started=$$(hack/offline/kind-node/dockerd start) || exit; \
	  go test -count=1 -failfast -timeout $(KIND_TIMEOUT) -v $(if $(RUN),-run '$(RUN)') ./integration/kindscenario -args -kind $(if $(KEEP),-keep) $(if $(RELEASE),-release '$(abspath $(RELEASE))'); \
	  code=$$?; $(if $(KEEP),,[ -z "$$started" ] || hack/offline/kind-node/dockerd stop;) exit $$code

# The random histories run one step after the other and would take ten times as long.
RACE_PACKAGES := ./kcp-publisher/internal/controller ./kcp-publisher/internal/publish ./skr-agent/internal/pull ./skr-agent/internal/agent/subscription
test-race: assets ## the race detector over publishing while keys change, and over the agent's pulls; needs a C compiler
	@if command -v $$(go env CC) >/dev/null; then \
	  KUBEBUILDER_ASSETS="$$(dirname "$$(go run ./hack/assets/cmd/assets | awk '$$1 == "kube-apiserver" {print $$2}')")" CGO_ENABLED=1 \
	    go test -race -vet=off -skip 'RandomHistories' $(RACE_PACKAGES); \
	else echo "SKIPPED: the race detector needs a C compiler"; fi

# make test runs a part of the same histories.
histories: ## 10,000 random histories each of attackers and of key changes, and 100,000 of rollouts; HISTORIES=N for another number
	KYMA_PULL_HISTORIES=$(HISTORIES) go test -count=1 -v -timeout $(TIMEOUT) ./kcp-publisher/internal/controller ./kcp-publisher/internal/core/rollout \
	  -run 'TestOtherRuntimesCannotChangeARuntimesBundle|TestRandomHistoriesFollowTheModel|TestRandomHistoriesKeepEveryPromise'

# Root of a Debian gets the browser from its archive; elsewhere $CHROMIUM names one. Without, the tests skip and say so.
test-ui: ## the web page in a real Chromium, judged by axe-core; pictures of it in bin/screenshots
	@set -a; eval "$$(go run ./hack/browser)"; SCREENSHOTS="$${SCREENSHOTS:-$(CURDIR)/bin/screenshots}"; \
	  go test -count=1 -timeout $(TIMEOUT) -v ./kcp-publisher/internal/web/ui

# Without a browser the tests skip, and the copy fails.
picture: ## the page's picture for the documentation, as the tests in a browser take it
	@rm -f bin/screenshots/overview-light-1280.png
	@$(MAKE) --no-print-directory test-ui SCREENSHOTS="$(CURDIR)/bin/screenshots"
	cp bin/screenshots/overview-light-1280.png docs/images/ui-overview.png

# Its go.mod follows the project's by itself: a new version there must not fail here.
test-oracle: ## sigstore-go, in a module of its own, judges every attestation that bundle writes
	cd integration/oracle && go vet -mod=mod ./... && go test -mod=mod .

test-cosign: ## crane, jq and cosign, built from their modules (minutes, once), run the commands of docs/guides/provenance.md
	cd integration/oracle && go test -mod=mod -timeout $(TIMEOUT) ./cosign

# The scenarios use the kinds that differ between versions: policies, webhooks, rights, server-side apply.
KUBERNETES_SCENARIOS := 'TestDefaultChartRightsSufficeForAModule|TestModuleIsInstalledUpgradedPrunedAndRemoved|TestHelmInstallsUpgradesAndRemovesTheCharts'

test-kubernetes: build ## install, upgrade and remove charts and modules on the oldest and the newest supported API server, each built from its module (minutes, once)
	@set -e; for limit in oldest newest; do \
	  assets=$$(go run ./hack/assets/cmd/assets -kubernetes $$limit); echo "== $$limit: $$assets"; \
	  KUBEBUILDER_ASSETS="$$assets" KYMA_PULL_PROGRAMS="$(CURDIR)/bin" TMPDIR="$$(hack/scratch)" go test -count=1 -vet=off -timeout $(TIMEOUT) \
	    -run $(KUBERNETES_SCENARIOS) ./integration/scenario ./integration/chart; \
	done

# Versions of the programs that a registry on S3 is tested with.
VERSITYGW_VERSION := v1.8.0
DISTRIBUTION_VERSION := v3.1.2
S3_PROGRAMS := $(HOME)/.cache/kyma-pull/s3-$(VERSITYGW_VERSION)-$(DISTRIBUTION_VERSION)

test-s3: ## a fleet over distribution with a bucket of versitygw; both are built from their modules (six minutes on two cores, once)
	GOBIN=$(S3_PROGRAMS) CGO_ENABLED=0 go install -ldflags="-s -w" github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW_VERSION)
	GOBIN=$(S3_PROGRAMS) CGO_ENABLED=0 go install -ldflags="-s -w" github.com/distribution/distribution/v3/cmd/registry@$(DISTRIBUTION_VERSION)
	KYMA_PULL_LONG=1 VERSITYGW=$(S3_PROGRAMS)/versitygw DISTRIBUTION=$(S3_PROGRAMS)/registry go test -count=1 -timeout $(TIMEOUT) -run TestFleetOnABucket ./integration/scenario

# One process lends API servers to all test binaries, so each is started once and used many times.
.PHONY: bin/lend
bin/lend:
	@mkdir -p bin
	@go build -ldflags='-s -w' -o bin/lend ./integration/cluster/lend

build: ## both programs into bin/
	@mkdir -p bin
	$(GO_BUILD) -o bin/ ./kcp-publisher ./skr-agent

images: ## both programs as images in bin/*.tar, without Docker; ARCH=arm64 for another machine, IMAGES=HOST/PATH for their names
	@mkdir -p bin/linux-$(ARCH)
	GOOS=linux GOARCH=$(ARCH) $(GO_BUILD) -trimpath -o bin/linux-$(ARCH)/ ./kcp-publisher ./skr-agent
	@go run ./hack/images -repository $(IMAGES) -version $(VERSION) -created "$$(git log -1 --format=%cI 2>/dev/null || echo 1970-01-01T00:00:00Z)" \
	  bin/linux-$(ARCH)/kcp-publisher bin/linux-$(ARCH)/skr-agent

release: ## programs, images, charts, definitions, bills of materials and checksums of VERSION=0.2.0 into dist/; KEY=FILE signs them
	@go run ./hack/release -version "$(VERSION)" -images $(IMAGES) $(if $(KEY),-key $(KEY)) $(FLAGS)

manifests: ## manifests for kubectl and bases of kustomize from the charts, in bin/manifests, for images of VERSION=1.0.0 in IMAGES=HOST/PATH
	@rm -rf bin/manifests && go run ./hack/release -version $(VERSION) -images $(IMAGES) -manifests bin/manifests

release-push: ## images and charts of the release VERSION=0.2.0 in dist/ to IMAGES=HOST/PATH, with $$REGISTRY_USER and $$REGISTRY_PASSWORD or the logins of docker
	@go run ./hack/release -push -version "$(VERSION)" -images $(IMAGES) $(FLAGS)

test-release: ## two releases of the newest commit are the same, and stock tools verify them
	KYMA_PULL_LONG=1 go test -count=1 -timeout $(TIMEOUT) ./hack/release

# golangci-lint has a module of its own: its dependencies would hold those of the other tools back. A quarter of its work would be to
# collect garbage.
lint: LINT := go tool -modfile=hack/golangci/go.mod golangci-lint
lint: ## gofmt, the linters of .golangci.yml, and actionlint for the workflows
	@unformatted=$$(gofmt -l $(FOLDERS)); [ -z "$$unformatted" ] || { echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; }
	go run ./hack/voice
	$(TOOL) actionlint -shellcheck= -pyflakes=
	$(LINT) config verify
	GOGC="$${GOGC:-400}" GOMEMLIMIT="$${GOMEMLIMIT:-6GiB}" $(LINT) run ./...

lint-docs: ## the prose of the pages, by Vale; it is compiled once, for minutes, and needs a C compiler
	@if command -v $$(go env CC) >/dev/null; then \
	  CGO_ENABLED=1 go tool -modfile=hack/vale/go.mod vale --config hack/vale/vale.ini docs README.md CONTRIBUTING.md SECURITY.md; \
	else echo "lint-docs: no C compiler here, so nothing was checked"; fi

# npm's folder stays out of bin/, because the configuration imports from it.
docs: ## the documentation as a searchable site in bin/site, and a check of its links and anchors; needs Node 20
	@command -v npm >/dev/null || { echo "make docs needs Node 20 or newer with npm"; exit 1; }
	cd hack/site && npm ci --no-audit --no-fund --loglevel=error && npx vitepress build .
	go run ./hack/site/linkcheck bin/site

# The later steps of .ci/run then compile little, so their CPU budgets hold with empty caches too. go tool -n builds a tool.
prepare: build assets bin/lend ## compile all packages and tools, and install the browser, for the steps of .ci/run
	@go list -export -test -deps ./... >/dev/null
	@if command -v $$(go env CC) >/dev/null; then CGO_ENABLED=1 go list -race -export -test -deps $(RACE_PACKAGES) >/dev/null; fi
	@cd integration/oracle && go list -mod=mod -export -test -deps . >/dev/null
	@for tool in gotestsum actionlint controller-gen govulncheck; do $(TOOL) -n $$tool >/dev/null || exit; done
	@go tool -modfile=hack/golangci/go.mod -n golangci-lint >/dev/null
	@go tool -modfile=hack/helmdocs/go.mod -n helm-docs >/dev/null
	@go run ./hack/browser
	@[ "$$(go env GOOS)" != linux ] || go run ./integration/chaos/cmd --compile

kind-nodes: ## pull or build the image of kind's nodes, and print its name; needs Docker
	@timeout 30m go run ./integration/kind/nodes

vulncheck: ## known vulnerabilities that our code can reach; VULNDB=URL for a copy of the database
	@go run ./hack/vulncheck $(if $(VULNDB),-db $(VULNDB)) ./...

generate: ## deepcopy functions, CRDs, the charts' READMEs and the references of command lines, configuration, metrics, definitions, the wire, annotations and conditions
	$(TOOL) controller-gen object paths=./apis/...
	$(TOOL) controller-gen crd paths=./apis/... output:crd:dir=charts/kcp-publisher/files/crds
	cd charts && for kind in kymas manifests moduletemplates modulereleasemetas; do cp kcp-publisher/files/crds/*_$$kind.yaml skr-agent/crds/; done
	@go tool -modfile=hack/helmdocs/go.mod helm-docs --log-level warning --chart-search-root charts
	go test -vet=off -count=1 -p 1 -run '^Test(The)?Reference' ./kcp-publisher/internal/command ./skr-agent/internal/command ./integration/layout ./kcp-publisher/internal/core/permission -args -update

verify-generated: generate ## fail when generated files are not current
	@changed=$$(git status --porcelain -- $(GENERATED)); [ -z "$$changed" ] || { \
	  git --no-pager diff -- $(GENERATED); echo "$$changed"; \
	  echo "generated files are not current: run make generate and commit them"; exit 1; }

bench: build assets ## benchmarks as a table, also in bench/
	@go run ./integration/bench

# Built first, as `go run` would leave a folder behind where it is killed. Nothing else should run on the machine.
bench-fleet: build assets ## a control plane with N=1000 simulated runtimes, measured into bench/fleet-N.md; FLAGS="-only idle,waves" and others
	@go build -o bin/bench-fleet ./integration/bench/scale && KYMA_PULL_PROGRAMS="$(CURDIR)/bin" bin/bench-fleet -n $(or $(N),1000) $(FLAGS)

bench-flux: build assets ## the agent beside Flux's controllers, N applications (100) in one cluster each, as a table, also in bench/
	@go build -o bin/bench-flux ./integration/bench/flux && KYMA_PULL_PROGRAMS="$(CURDIR)/bin" bin/bench-flux -n $(or $(N),100) $(FLAGS)

fuzz: ## every fuzz target for FUZZTIME (10s) each
	@set -e; for package in $$(grep -rl --include='*_test.go' '^func Fuzz' $(FOLDERS) | xargs -n1 dirname | sort -u); do \
	  for target in $$(grep -h '^func Fuzz' $$package/*_test.go | sed 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/'); do \
	    echo "== $$package $$target"; go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) ./$$package; \
	  done; done

# Before the tests, so that the minutes of a first build are seen and count against no test's time.
assets: ## kube-apiserver, etcd and kwok, from a cache or built once
	@mkdir -p bin
	@hack/elapsed "compiling hack/assets" go build -o bin/assets ./hack/assets/cmd/assets
	@bin/assets $(ASSETS_FLAGS) >/dev/null
