package layout

import (
	"slices"
	"strings"
	"testing"
)

// pure lists the packages that contain only decision logic. They must not use I/O, clients or clocks.
var pure = []string{
	"bundle", "bundle/refusal", "bundle/trust", "bundle/ocm", "bundle/strict", "bundle/window",
	"kcp-publisher/internal/core/catalog", "kcp-publisher/internal/core/resolve", "kcp-publisher/internal/core/rollout",
	"kcp-publisher/internal/core/plan", "kcp-publisher/internal/core/ingest", "kcp-publisher/internal/core/forecast",
	"kcp-publisher/internal/core/course", "kcp-publisher/internal/core/disclosure",
	"kcp-publisher/internal/core/rollout/readings",
	"kcp-publisher/internal/core/rollout/changes",
	"kcp-publisher/internal/core/fleet", "kcp-publisher/internal/core/reconcile",
	"skr-agent/internal/core/autonomy", "skr-agent/internal/core/maintenance", "skr-agent/internal/core/provenance",
	"skr-agent/internal/core/report", "skr-agent/internal/core/round", "skr-agent/internal/agent/logonce",
	"skr-agent/internal/install/object", "skr-agent/internal/metadata",
	"skr-agent/internal/install/outcome", "skr-agent/internal/install/readiness",
}

// impure lists import path prefixes that a pure package must not import.
var impure = []string{"oras.land/", "os", "net", "k8s.io/client-go", "sigs.k8s.io/controller-runtime"}

// storeUsers lists the packages that can import the registry library.
var storeUsers = []string{
	"bundle/store", "kcp-publisher/internal/components/archive", "kcp-publisher/internal/components/cache",
	"kcp-publisher/internal/components/component", "integration", "hack/release",
}

// maxAgentPackages limits the number of packages that the agent links, including the standard library. About 220 of
// them are typed clients and informers of client-go, which controller-runtime requires for leader election. The limit
// was last increased for internal/moduleinput, which both programs use, and for new versions of smithy-go, cel-go and
// kyaml. It was also increased for internal/cloudauth with the AWS SDK's signer, which replaced the 339 packages of
// fluxcd/pkg/auth, and for the agent's package metadata, which its packages objects and secrets share.
const maxAgentPackages = 1196

func TestPurePackagesDoNoIO(t *testing.T) {
	known := map[string]goPackage{}
	for _, p := range packages(t) {
		known[strings.TrimPrefix(p.ImportPath, module+"/")] = p
	}
	for _, name := range pure {
		p, ok := known[name]
		if !ok {
			t.Errorf("package %s does not exist", name)
		}
		for _, imported := range p.Imports {
			if slices.ContainsFunc(impure, func(prefix string) bool { return matches(imported, prefix) }) {
				t.Errorf("%s imports %s: decision logic must not do I/O", name, imported)
			}
		}
	}
}

// Package bundle contains decision logic, which must not do I/O.
func TestPackageBundleLinksNoRegistryClient(t *testing.T) {
	for _, name := range []string{
		"bundle", "bundle/trust", "kcp-publisher/internal/core/resolve", "kcp-publisher/internal/core/rollout",
		"kcp-publisher/internal/core/catalog",
		"kcp-publisher/internal/core/plan", "kcp-publisher/internal/core/ingest",
		"kcp-publisher/internal/core/forecast", "kcp-publisher/internal/core/fleet",
	} {
		for dependency := range linked(t, name) {
			if strings.HasPrefix(dependency, "oras.land/") || strings.HasPrefix(dependency, "k8s.io/client-go") {
				t.Errorf("%s links %s", name, dependency)
			}
		}
	}
}

func TestOnlyStoreImportsRegistryLibrary(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		allowed := slices.ContainsFunc(storeUsers, func(user string) bool {
			return name == user || strings.HasPrefix(name, user+"/")
		})
		for _, imported := range p.Imports {
			if strings.HasPrefix(imported, "oras.land/") && !allowed {
				t.Errorf("%s imports %s: read and write through bundle/store", name, imported)
			}
		}
	}
}

func TestAgentLinksFewPackages(t *testing.T) {
	if count := len(linked(t, "skr-agent")); count > maxAgentPackages {
		t.Errorf(
			"the agent links %d packages, want at most %d: remove dependencies, or raise the limit with a reason",
			count, maxAgentPackages)
	}
}

// A complete clientset would add 9 MB to the agent.
func TestAgentDoesNotUseClientset(t *testing.T) {
	ofAgent := linked(t, "skr-agent")
	for _, p := range packages(t) {
		if ofAgent[p.ImportPath] && slices.Contains(p.Imports, "k8s.io/client-go/kubernetes") {
			t.Errorf("%s imports k8s.io/client-go/kubernetes: use the client of one API group, such as typed/core/v1",
				p.ImportPath)
		}
	}
}

// matches reports whether an import path has a prefix. It returns false for net/url, which pure packages can import.
func matches(imported, prefix string) bool {
	return imported != "net/url" &&
		(imported == strings.TrimSuffix(prefix, "/") ||
			strings.HasPrefix(imported, strings.TrimSuffix(prefix, "/")+"/"))
}
