# Tools are pinned in hack/tools/go.mod and run from there; nothing is installed.
TOOL := go tool -modfile=hack/tools/go.mod
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
GO_BUILD := CGO_ENABLED=0 go build -ldflags '-s -w -funcalign=16 -X main.version=$(VERSION)'
FUZZTIME ?= 10s
TIMEOUT ?= 45m
LONG_TIMEOUT ?= 120m
HISTORIES ?= 10000
KIND_TIMEOUT ?= 60m
ARCH ?= $(shell go env GOARCH)
IMAGES ?= ghcr.io/kyma-pull
FOLDERS := $(wildcard apis bundle charts hack integration internal kcp-publisher skr-agent)
GENERATED := ':(glob)apis/**/zz_generated.*.go' ':(glob)charts/*/crds/**' ':(glob)charts/*/README.md' docs/reference/cli docs/reference/metrics.md \
  docs/reference/annotations-and-labels.md docs/reference/conditions-and-reasons.md docs/reference/kyma-settings.md charts/kcp-publisher/policy/settings.yaml charts/skr-agent/policy/protection.yaml charts/kcp-publisher/rbac/operator.yaml \
  docs/reference/configuration.md docs/reference/crds.md docs/reference/wire-format.md integration/oracle/go.mod integration/oracle/go.sum

# The programs are built and tested without cgo. Linking seventy test binaries then takes a quarter less time.
export CGO_ENABLED := 0
# With -trimpath, compiled packages do not contain the path of the clone, so all clones share Go's build cache.
export GOFLAGS := $(strip $(filter-out -trimpath,$(shell go env GOFLAGS)) -trimpath)

.DEFAULT_GOAL := help
.PHONY: help prepare kind-nodes demo recording chaos soak try-module release manifests release-push release-tools test-release test test-long histories test-kind test-first-clusters test-ui picture docs lint-docs vulncheck test-race test-oracle test-cosign test-kubernetes test-s3 build images lint generate verify-generated bench bench-fleet bench-flux fuzz assets

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Long steps print their progress: with an empty cache, the first run compiles for minutes.
demo: ASSETS_FLAGS := -alerts=false
demo: assets ## run the demo with a control plane and two runtimes; EXIT=1 exits after the last step
	@hack/elapsed "compiling kcp-publisher and skr-agent" $(MAKE) --no-print-directory build
	@hack/elapsed "compiling the demo" go build -o bin/demo ./integration/demo
	@KYMA_PULL_PROGRAMS="$(CURDIR)/bin" bin/demo $(if $(EXIT),--exit)

recording: build assets ## record the demo for the README into docs/images/demo.svg
	@go build -o bin/demo ./integration/demo && KYMA_PULL_PROGRAMS="$(CURDIR)/bin" bin/demo --exit --record docs/images/demo.svg

try-module: build assets ## test a module: install, upgrade, inject faults, undo the upgrade, remove; COMPONENT=NAME FROM=1.0.0 TO=1.1.0 COMPONENTS=WHERE [TEMPLATES=FOLDER] [FLAGS=...] [KIND=1]
	@$(if $(KIND),trap : INT TERM; started=$$(hack/offline/kind-node/dockerd start) || exit;) \
	  go run ./integration/try/cmd $(if $(KIND),--kind) $(if $(COMPONENT),--component '$(COMPONENT)') $(if $(FROM),--from '$(FROM)') $(if $(TO),--to '$(TO)') \
	  $(if $(COMPONENTS),--components '$(COMPONENTS)') $(if $(TEMPLATES),--templates '$(TEMPLATES)') $(FLAGS); \
	  code=$$?; $(if $(KIND),[ -z "$$started" ] || hack/offline/kind-node/dockerd stop;) exit $$code

# OLDEST_RELEASE is the commit of the oldest supported release.
OLDEST_RELEASE = $$(awk '!/^\#/ {print $$2; exit}' integration/scenario/testdata/releases.txt)

# The program is built first, because an interrupted `go run` leaves a temporary folder behind.
chaos: build assets ## inject random faults for DURATION (5m) into a fleet of 5 REAL and 15 SIMULATED runtimes; SEED=N repeats the faults of a run; NETWORK=1, CLOCKS=1, DISASTERS=1, EXPIRY=1, CA=1 add network faults, clock faults, restores and clones, long outages of publishers, and changes of the registry's CA; SHARDS=1, NOTIFICATIONS=1, MIXED=1 change the fleet
	@go build -o bin/chaos ./integration/chaos/cmd && KYMA_PULL_PROGRAMS="$(CURDIR)/bin" TMPDIR="$$(hack/scratch)" bin/chaos \
	  --duration $(or $(DURATION),5m) $(if $(SEED),--seed $(SEED)) $(if $(REAL),--real $(REAL)) $(if $(SIMULATED),--simulated $(SIMULATED)) $(if $(NETWORK),--network) $(if $(CLOCKS),--clocks) $(if $(DISASTERS),--disasters) $(if $(EXPIRY),--expiry) $(if $(CA),--ca) \
	  $(if $(SHARDS),--shards) $(if $(NOTIFICATIONS),--notifications) $(if $(MIXED),--mixed "$(OLDEST_RELEASE)") $(FLAGS)

soak: ## run the chaos fleet without faults for DURATION (1h) and report the growth of memory, goroutines and open files, also in .chaos/soak.md
	@$(MAKE) --no-print-directory chaos DURATION=$(or $(DURATION),1h) FLAGS="--soak $(FLAGS)"

# The scenarios come first, because they take the longest, and the other packages run while scenarios wait. The next
# slowest packages follow, so that none of them runs alone at the end. Three packages run at the same time, also on two
# cores, because many tests wait. make lint runs go vet. Random tests repeat the same cases, which $$RAPID_SEED and
# hack/suite define. A high GOGC saves a third of the CPU time of a test binary.
SLOWEST := ./integration/scenario ./skr-agent/internal/install ./integration/chart ./internal/render ./kcp-publisher/internal/web/signin ./kcp-publisher/internal/controller ./internal/checks/probe
test: build assets bin/lend ## run the short test suite with real API servers and a real registry
	GOTMPDIR="$${GOTMPDIR:-$${TMPDIR:-/tmp}}" TMPDIR="$$(hack/scratch)" KYMA_PULL_PROGRAMS="$(CURDIR)/bin" RAPID_SEED=1 GOGC="$${GOGC:-400}" \
	  KUBEBUILDER_ASSETS="$$(dirname "$$(go run ./hack/assets/cmd/assets | awk '$$1 == "kube-apiserver" {print $$2}')")" \
	  bin/lend $(TOOL) gotestsum --format standard-quiet --hide-summary skipped \
	  --packages '$(SLOWEST) ./...' -- -p 3 -vet=off -ldflags='-s -w' -timeout $(TIMEOUT)
	@echo "make test: passed"

# The targets that it runs can also be run separately.
test-long: build assets bin/lend ## run the long test suite (one to two hours), for changes in the folders that CONTRIBUTING.md lists
	set -a; eval "$$(go run ./hack/browser)"; TMPDIR="$$(hack/scratch)" KYMA_PULL_PROGRAMS="$(CURDIR)/bin" KYMA_PULL_LONG=1 \
	  KUBEBUILDER_ASSETS="$$(dirname "$$(go run ./hack/assets/cmd/assets | awk '$$1 == "kube-apiserver" {print $$2}')")" \
	  bin/lend go test -count=1 -vet=off -ldflags='-s -w' -timeout $(LONG_TIMEOUT) $$(hack/suite/list)
	$(MAKE) histories
	$(MAKE) test-s3
	$(MAKE) test-cosign
	$(MAKE) test-kubernetes
	KYMA_PULL_LONG=1 $(MAKE) test-kind
	$(MAKE) chaos DURATION=10m

# These scenarios need pods, nodes and a network. They share one fleet, so the run ends with the first failure. The test
# handles Ctrl-C and removes the clusters. The shell ignores Ctrl-C and stops Docker afterwards if it started Docker.
test-kind: build ## run the scenarios on kind clusters; RUN=TestX selects, KEEP=1 keeps the clusters, KIND_NODE_IMAGE=NAME sets the node image, RELEASE=dist installs a release
	@trap : INT TERM; started=$$(hack/offline/kind-node/dockerd start) || exit; \
	  go test -count=1 -failfast -timeout $(KIND_TIMEOUT) -v $(if $(RUN),-run '$(RUN)') ./integration/kindscenario -args -kind $(if $(KEEP),-keep) $(if $(RELEASE),-release '$(abspath $(RELEASE))'); \
	  code=$$?; $(if $(KEEP),,[ -z "$$started" ] || hack/offline/kind-node/dockerd stop;) exit $$code

test-first-clusters: ## run the commands of docs/tutorials/first-clusters.md on kind clusters, with the release in RELEASE=dist
	@trap : INT TERM; started=$$(hack/offline/kind-node/dockerd start) || exit; \
	  KYMA_PULL_RELEASE='$(abspath $(or $(RELEASE),dist))' go test -count=1 -timeout $(KIND_TIMEOUT) -v -run TestFirstClustersTutorialWorks ./integration/kind; \
	  code=$$?; [ -z "$$started" ] || hack/offline/kind-node/dockerd stop; exit $$code

# The random histories are skipped: they have no concurrency, and would take ten times as long. The measurement of memory
# is skipped, because the race detector uses memory itself.
RACE_PACKAGES := ./kcp-publisher/internal/controller ./kcp-publisher/internal/publish ./skr-agent/internal/pull ./skr-agent/internal/agent/subscription
test-race: assets ## run the race detector on the publisher's and the agent's concurrent packages; needs a C compiler
	@if command -v $$(go env CC) >/dev/null; then \
	  KUBEBUILDER_ASSETS="$$(dirname "$$(go run ./hack/assets/cmd/assets | awk '$$1 == "kube-apiserver" {print $$2}')")" CGO_ENABLED=1 \
	    GOGC="$${GOGC:-400}" go test -race -vet=off -skip 'RandomHistories|TestRuntimeCannotChangeBundlesOfOtherRuntimes|TestFleetFitsIntoMemory' $(RACE_PACKAGES); \
	else echo "SKIPPED: the race detector needs a C compiler"; fi

# make test runs a part of these histories.
histories: ## test 10,000 random histories each of attackers and key changes, and 100,000 of rollouts; HISTORIES=N sets the number
	KYMA_PULL_HISTORIES=$(HISTORIES) go test -count=1 -v -timeout $(TIMEOUT) ./kcp-publisher/internal/controller ./kcp-publisher/internal/core/rollout \
	  -run 'TestRuntimeCannotChangeBundlesOfOtherRuntimes|TestRandomHistoriesFollowTheModel|TestRandomHistoriesKeepAllGuarantees'

# On Debian, root installs Chromium from the archive. Otherwise set $CHROMIUM. Without a browser, the tests are skipped.
test-ui: ## test the web page in Chromium and with axe-core; screenshots are in bin/screenshots
	@set -a; eval "$$(go run ./hack/browser)"; SCREENSHOTS="$${SCREENSHOTS:-$(CURDIR)/bin/screenshots}"; \
	  go test -count=1 -timeout $(TIMEOUT) -v ./kcp-publisher/internal/web/ui

# Without a browser, the tests are skipped and the copy fails.
picture: ## update the documentation's picture of the web page from a screenshot of test-ui
	@rm -f bin/screenshots/overview-light-1280.png
	@$(MAKE) --no-print-directory test-ui SCREENSHOTS="$(CURDIR)/bin/screenshots"
	cp bin/screenshots/overview-light-1280.png docs/images/ui-overview.png

# -mod=mod updates the module's go.mod, so a new version in the project's go.mod does not fail here.
test-oracle: ## verify every attestation of package bundle with sigstore-go, in a separate module
	cd integration/oracle && go vet -mod=mod ./... && go test -mod=mod .

test-cosign: ## run the commands of docs/guides/provenance.md with crane, jq and cosign, which are built once (minutes)
	cd integration/oracle && go test -mod=mod -timeout $(TIMEOUT) ./cosign

# The scenarios cover features that differ between Kubernetes versions: policies, webhooks, RBAC, server-side apply.
KUBERNETES_SCENARIOS := 'TestDefaultChartRightsSufficeForAModule|TestModuleIsInstalledUpgradedPrunedAndRemoved|TestHelmInstallsUpgradesAndRemovesTheCharts'

test-kubernetes: build ## install, upgrade and remove charts and modules on the oldest and the newest supported API server, which are built once (minutes), and upgrade an API server below a running agent
	@set -e; for limit in oldest newest; do \
	  assets=$$(go run ./hack/assets/cmd/assets -kubernetes $$limit); echo "== $$limit: $$assets"; \
	  KUBEBUILDER_ASSETS="$$assets" KYMA_PULL_PROGRAMS="$(CURDIR)/bin" TMPDIR="$$(hack/scratch)" go test -count=1 -vet=off -timeout $(TIMEOUT) \
	    -run $(KUBERNETES_SCENARIOS) ./integration/scenario ./integration/chart; \
	done
	@TMPDIR="$$(hack/scratch)" KUBEBUILDER_ASSETS="$$(dirname "$$(go run ./hack/assets/cmd/assets | awk '$$1 == "kube-apiserver" {print $$2}')")" \
	  KYMA_PULL_LONG=1 go test -count=1 -vet=off -timeout $(TIMEOUT) -run TestKubernetesUpgrade ./skr-agent/internal/install

# Versions of the programs for the test of a registry on S3.
VERSITYGW_VERSION := v1.8.0
DISTRIBUTION_VERSION := v3.1.2
S3_PROGRAMS := $(HOME)/.cache/kyma-pull/s3-$(VERSITYGW_VERSION)-$(DISTRIBUTION_VERSION)

test-s3: ## test a fleet with distribution on an S3 bucket of versitygw; both are built once (six minutes on two cores)
	GOBIN=$(S3_PROGRAMS) CGO_ENABLED=0 go install -ldflags="-s -w" github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW_VERSION)
	GOBIN=$(S3_PROGRAMS) CGO_ENABLED=0 go install -ldflags="-s -w" github.com/distribution/distribution/v3/cmd/registry@$(DISTRIBUTION_VERSION)
	KYMA_PULL_LONG=1 VERSITYGW=$(S3_PROGRAMS)/versitygw DISTRIBUTION=$(S3_PROGRAMS)/registry go test -count=1 -timeout $(TIMEOUT) -run TestFleetWorksWithRegistryOnABucket ./integration/scenario

# One process lends API servers to all test binaries, so each API server is started once and used many times.
.PHONY: bin/lend
bin/lend:
	@mkdir -p bin
	@go build -ldflags='-s -w' -o bin/lend ./integration/cluster/lend

build: ## build both programs into bin/
	@mkdir -p bin
	$(GO_BUILD) -o bin/ ./kcp-publisher ./skr-agent

images: ## build images of both programs into bin/*.tar, without Docker; ARCH=arm64 sets the architecture, IMAGES=HOST/PATH the names
	@mkdir -p bin/linux-$(ARCH)
	GOOS=linux GOARCH=$(ARCH) $(GO_BUILD) -o bin/linux-$(ARCH)/ ./kcp-publisher ./skr-agent
	@go run ./hack/images -repository $(IMAGES) -version $(VERSION) -created "$$(git log -1 --format=%cI 2>/dev/null || echo 1970-01-01T00:00:00Z)" \
	  bin/linux-$(ARCH)/kcp-publisher bin/linux-$(ARCH)/skr-agent

# Versions of the programs for make release TOOLS=1. cosign's version is in hack/cosign/go.mod.
GORELEASER_VERSION := v2.16.0
KO_VERSION := v0.19.1
SYFT_VERSION := v1.57.1
RELEASE_TOOLS := $(HOME)/.cache/kyma-pull/release-$(GORELEASER_VERSION)-$(KO_VERSION)-$(SYFT_VERSION)

release: $(if $(TOOLS),release-tools) ## build release VERSION=0.2.0 into dist/: programs, images, charts, CRDs, bills of materials and checksums; KEY=FILE signs, TOOLS=1 uses goreleaser, ko, syft and cosign
	@go run ./hack/release -version "$(VERSION)" -images $(IMAGES) $(if $(KEY),-key $(KEY)) $(if $(TOOLS),-tools $(RELEASE_TOOLS)) $(FLAGS)

release-tools: ## build goreleaser, ko, syft and cosign from their Go modules (minutes)
	GOBIN=$(RELEASE_TOOLS) go install -ldflags="-s -w" github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)
	GOBIN=$(RELEASE_TOOLS) go install -ldflags="-s -w" github.com/google/ko@$(KO_VERSION)
	GOBIN=$(RELEASE_TOOLS) go install -ldflags="-s -w" github.com/anchore/syft/cmd/syft@$(SYFT_VERSION)
	cd hack/cosign && go build -ldflags="-s -w" -o $(RELEASE_TOOLS)/ github.com/sigstore/cosign/v3/cmd/cosign

manifests: ## render the charts into bin/manifests as manifests for kubectl and kustomize, for images of VERSION=1.0.0 in IMAGES=HOST/PATH
	@rm -rf bin/manifests && go run ./hack/release -version $(VERSION) -images $(IMAGES) -manifests bin/manifests

release-push: ## push images and charts of release VERSION=0.2.0 from dist/ to IMAGES=HOST/PATH, with $$REGISTRY_USER and $$REGISTRY_PASSWORD or the logins of docker
	@go run ./hack/release -push -version "$(VERSION)" -images $(IMAGES) $(FLAGS)

test-release: $(if $(TOOLS),release-tools) ## test that two release builds of HEAD are identical and that stock tools verify them; TOOLS=1 builds them with goreleaser, ko, syft and cosign
	KYMA_PULL_LONG=1 $(if $(TOOLS),KYMA_PULL_RELEASE_TOOLS=$(RELEASE_TOOLS)) go test -count=1 -timeout $(TIMEOUT) ./hack/release

# golangci-lint has its own module, because its dependencies would hold back the versions of other tools' dependencies.
# A high GOGC saves a quarter of its CPU time.
lint: LINT := go tool -modfile=hack/golangci/go.mod golangci-lint
lint: ## run gofmt, the voice check, the linters of .golangci.yml, and actionlint for the workflows
	@unformatted=$$(gofmt -l $(FOLDERS)); [ -z "$$unformatted" ] || { echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; }
	go run ./hack/voice
	$(TOOL) actionlint -shellcheck= -pyflakes=
	$(LINT) config verify
	GOGC="$${GOGC:-400}" GOMEMLIMIT="$${GOMEMLIMIT:-6GiB}" $(LINT) run ./...

lint-docs: ## check the prose of the documentation with Vale; Vale is compiled once (minutes) and needs a C compiler
	@if command -v $$(go env CC) >/dev/null; then \
	  CGO_ENABLED=1 go tool -modfile=hack/vale/go.mod vale --config hack/vale/vale.ini docs README.md CONTRIBUTING.md SECURITY.md; \
	else echo "lint-docs: skipped, because Vale needs a C compiler"; fi

# npm's folder stays out of bin/, because the configuration imports from it.
docs: ## build the documentation site in bin/site, and check its links and anchors; needs Node 20
	@command -v npm >/dev/null || { echo "make docs needs Node 20 or newer with npm"; exit 1; }
	cd hack/site && npm ci --no-audit --no-fund --loglevel=error && npx vitepress build .
	go run ./hack/site/linkcheck bin/site

# The later steps of .ci/run then compile little, so their CPU budgets are valid with empty caches too. go tool -n
# builds a tool.
prepare: build assets bin/lend ## compile all packages and tools and install the browser for the steps of .ci/run
	@go list -export -test -deps ./... >/dev/null
	@if command -v $$(go env CC) >/dev/null; then CGO_ENABLED=1 go list -race -export -test -deps $(RACE_PACKAGES) >/dev/null; fi
	@cd integration/oracle && go list -mod=mod -export -test -deps . >/dev/null
	@for tool in gotestsum actionlint controller-gen govulncheck kubeconform oras; do $(TOOL) -n $$tool >/dev/null || exit; done
	@for tool in golangci:golangci-lint helm:helm helm4:helm helmdocs:helm-docs; do go tool -modfile=hack/$${tool%:*}/go.mod -n $${tool#*:} >/dev/null || exit; done
	@go run ./hack/browser
	@[ "$$(go env GOOS)" != linux ] || go run ./integration/chaos/cmd --compile --mixed "$(OLDEST_RELEASE)"

kind-nodes: ## pull or build the node image for kind and print its name; needs Docker
	@timeout 60m go run ./integration/kind/nodes

vulncheck: ## report known vulnerabilities in reachable code; VULNDB=URL uses a copy of the database
	@go run ./hack/vulncheck $(if $(VULNDB),-db $(VULNDB)) ./...

generate: ## generate deepcopy functions, CRDs, the charts' READMEs, the reference pages and the module of test-oracle
	$(TOOL) controller-gen object paths=./apis/...
	$(TOOL) controller-gen crd paths=./apis/... output:crd:dir=charts/kcp-publisher/files/crds
	cd charts && for kind in kymas manifests moduletemplates modulereleasemetas; do cp kcp-publisher/files/crds/*_$$kind.yaml skr-agent/crds/; done
	@go tool -modfile=hack/helmdocs/go.mod helm-docs --log-level warning --chart-search-root charts
	@cd integration/oracle && go list -mod=mod -test -deps ./... >/dev/null
	go test -vet=off -count=1 -p 1 -run 'Reference(Of|Is)' ./kcp-publisher/internal/command ./skr-agent/internal/command ./integration/layout ./kcp-publisher/internal/core/permission ./internal/guard -args -update

verify-generated: generate ## fail when generated files are not current
	@changed=$$(git status --porcelain -- $(GENERATED)); [ -z "$$changed" ] || { \
	  git --no-pager diff -- $(GENERATED); echo "$$changed"; \
	  echo "generated files are not current: run make generate and commit them"; exit 1; }

bench: build assets ## run the benchmarks and print a table, also written to bench/
	@go run ./integration/bench

# The program is built first, because an interrupted `go run` leaves a temporary folder behind. Other programs on the
# machine distort the results.
bench-fleet: build assets ## measure a control plane with N=1000 simulated runtimes, into bench/fleet-N.md; FLAGS="-only idle,waves" selects stages
	@go build -o bin/bench-fleet ./integration/bench/scale && KYMA_PULL_PROGRAMS="$(CURDIR)/bin" bin/bench-fleet -n $(or $(N),1000) $(FLAGS)

bench-flux: build assets ## compare the agent with Flux's controllers, each with N applications (100) in one cluster; prints a table, also written to bench/
	@go build -o bin/bench-flux ./integration/bench/flux && KYMA_PULL_PROGRAMS="$(CURDIR)/bin" bin/bench-flux -n $(or $(N),100) $(FLAGS)

fuzz: ## run every fuzz target for FUZZTIME (10s)
	@set -e; for package in $$(grep -rl --include='*_test.go' '^func Fuzz' $(FOLDERS) | xargs -n1 dirname | sort -u); do \
	  for target in $$(grep -h '^func Fuzz' $$package/*_test.go | sed 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/'); do \
	    echo "== $$package $$target"; go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) ./$$package; \
	  done; done

# The tests depend on this target, so a first build shows its progress and does not count against a test's time limit.
assets: ## download or build kube-apiserver, etcd and kwok, unless they are in the cache
	@mkdir -p bin
	@hack/elapsed "compiling hack/assets" go build -o bin/assets ./hack/assets/cmd/assets
	@bin/assets $(ASSETS_FLAGS) >/dev/null
