// Package layout tests that the repository matches docs/concepts/code-layout.md: the folders, the direction of
// imports, the names, and the packages that the agent must never link. It also tests that pages, workflows and the
// Makefile agree.
package layout

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/kyma-pull/kyma-pull"

// topLevel lists the allowed entries in the root folder, except dot files.
var topLevel = []string{
	"apis", "bundle", "internal", "kcp-publisher", "skr-agent", "charts", "hack", "integration", "docs",
	"go.mod", "go.sum", "Makefile", "README.md", "LICENSE", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md",
	"CODEOWNERS",
}

// layers orders the top-level folders. A folder imports only from lower layers.
var layers = map[string]int{
	"hack": 0, "apis": 1, "charts": 1, "bundle": 2, "internal": 3, "kcp-publisher": 4, "skr-agent": 4, "integration": 5,
}

var emptyNames = []string{"util", "utils", "common", "helper", "helpers", "types", "model", "models", "misc"}

// maxLines is the maximum length of a file, which must cover only one topic.
const maxLines = 500

// forbiddenInAgent lists import path prefixes of packages that the agent must not link: large packages, and the
// publisher's code.
var forbiddenInAgent = []string{
	module + "/kcp-publisher", "github.com/go-git/go-git", "github.com/sigstore/sigstore-go",
	"github.com/sigstore/cosign",
	"helm.sh/helm/v3/pkg/action", "helm.sh/helm/v3/pkg/cli", "helm.sh/helm/v3/pkg/kube",
	"github.com/distribution/distribution",
	"k8s.io/kubectl", "github.com/fluxcd/cli-utils/pkg/kstatus/polling",
}

// forTests lists the packages below hack that all tests can import.
var forTests = []string{
	module + "/hack/assets", module + "/hack/lender", module + "/hack/pristine", module + "/hack/suite",
}

type goPackage struct {
	ImportPath, Dir, Name, ForTest     string
	DepOnly                            bool
	ImportMap                          map[string]string
	Imports, TestImports, XTestImports []string
	GoFiles, TestGoFiles, XTestGoFiles []string
	EmbedPatterns                      []string
}

func TestTopLevelFoldersAreFixed(t *testing.T) {
	command := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard")
	command.Dir = root(t)
	list, err := command.Output()
	if err != nil {
		t.Skipf("not a git checkout, so built files cannot be recognized: %v", err)
	}
	for line := range strings.Lines(string(list)) {
		entry, _, _ := strings.Cut(strings.TrimSpace(line), "/")
		if !strings.HasPrefix(entry, ".") && !slices.Contains(topLevel, entry) {
			t.Errorf("%s: the top level is fixed, see docs/concepts/code-layout.md", strings.TrimSpace(line))
		}
	}
}

func TestImportsPointToLowerLayers(t *testing.T) {
	for _, p := range packages(t) {
		for _, imported := range p.Imports {
			if problem := importProblem(p.ImportPath, imported); problem != "" {
				t.Error(problem)
			}
		}
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			if problem := importProblem(p.ImportPath, imported); problem != "" && !slices.Contains(forTests, imported) {
				t.Error(problem)
			}
		}
	}
}

func TestImportsFromHigherLayersAreRefused(t *testing.T) {
	for _, c := range []struct {
		from, to string
		allowed  bool
	}{
		{"skr-agent", "bundle", true},
		{"bundle/ocm", "bundle/strict", true},
		{"integration/fleet", "kcp-publisher", true},
		{"integration/cluster", "hack/assets", true},
		{"hack/assets/cmd/assets", "hack/assets", true},
		{"bundle", "skr-agent", false},
		{"skr-agent/internal/pull", "kcp-publisher/internal/publish", false},
		{"kcp-publisher", "skr-agent", false},
		{"kcp-publisher", "integration/registry", false},
		{"apis/operator/v1beta2", "charts", false},
		{"skr-agent", "hack/assets", false},
		{"hack/assets", "bundle", false},
		{"kcp-publisher/internal/command", "internal/cli", true},
		{"skr-agent/internal/command", "internal/cli", true},
		{"integration/scenario", "internal/cli", true},
		{"internal/cli", "bundle", true},
		{"internal/cli", "apis/operator/v1beta2", true},
		{"internal/cli", "hack/assets", false},
		{"internal/cli", "kcp-publisher", false},
		{"internal/cli", "integration/registry", false},
		{"bundle", "internal/cli", false},
		{"attic", "bundle", false},
	} {
		problem := importProblem(module+"/"+c.from, module+"/"+c.to)
		if (problem == "") != c.allowed {
			t.Errorf("%s imports %s: allowed must be %t, the rule returns %q", c.from, c.to, c.allowed, problem)
		}
	}
	if problem := importProblem(module+"/bundle", "oras.land/oras-go/v2"); problem != "" {
		t.Errorf("import from another project: %s", problem)
	}
}

// importProblem explains why an import between two top-level folders is not allowed. It returns "" if the import is
// allowed.
func importProblem(from, to string) string {
	target, ours := strings.CutPrefix(to, module+"/")
	if !ours {
		return ""
	}
	source, imported := folder(strings.TrimPrefix(from, module+"/")), folder(target)
	low, known := layers[imported]
	high, sourceKnown := layers[source]
	switch {
	case !known || !sourceKnown:
		return fmt.Sprintf("%s imports %s, but layers in integration/layout lacks the folder of one of them", from, to)
	case source == imported:
		return ""
	case imported == "hack" && source != "integration":
		return fmt.Sprintf("%s imports %s: only integration can import hack", from, to)
	case low >= high:
		return fmt.Sprintf("%s (layer %d) imports %s (layer %d): a folder can import only from lower layers",
			from, high, to, low)
	}
	return ""
}

// levels maps the folders below each program's internal folder to their level. A folder imports only from folders with
// a lower level. The takeover folder has several levels, because both the core and the command line call parts of it.
// In the publisher's command folder, levels 0 and 1 are shared packages, and each package at level 2 contains the
// commands for one topic.
var levels = map[string]map[string]int{
	"kcp-publisher/internal/": {
		"schema": 0, "cloudlogin": 0, "core": 1, "registryops": 1, "components": 2, "gitops": 2, "actions": 2, "takeover": 2,
		"takeover/phase": 0, "takeover/command": 5, "publish": 3, "export": 4, "keys": 4, "web": 4, "controller": 5,
		"command": 6,
	},
	"kcp-publisher/internal/command/": {
		"controlplane": 0, "flagset": 0, "published": 0, "terminal": 0, "webserver": 0,
		"controlplanetest": 1, "keyfolder": 1, "preview": 1, "reports": 1, "selection": 1,
		"check": 2, "component": 2, "diff": 2, "enrollment": 2, "events": 2, "export": 2, "fleetui": 2, "images": 2,
		"keyring": 2, "operator": 2, "promote": 2, "publish": 2, "registry": 2, "removals": 2, "rollout": 2, "status": 2,
		"runtimes": 3, // imports status to print the status of a runtime after reconcile
	},
	"skr-agent/internal/": {
		"metadata": 0, "record": 0, "takeover": 1, "contentstore": 2, "core": 2, "intake": 2, "secrets": 2, "watch": 2,
		"importer": 3, "objects": 3, "prove": 3, "pull": 3, "install": 4, "agent": 5, "command": 6,
	},
}

func TestProgramFoldersImportDownwards(t *testing.T) {
	for _, p := range packages(t) {
		for _, imported := range p.Imports {
			if problem := levelProblem(p.ImportPath, imported); problem != "" {
				t.Error(problem)
			}
		}
	}
}

func TestLowerLayersCannotImportHigherLayers(t *testing.T) {
	for _, c := range []struct {
		from, to string
		allowed  bool
	}{
		{"kcp-publisher/internal/controller", "kcp-publisher/internal/core/plan", true},
		{"kcp-publisher/internal/core/plan", "kcp-publisher/internal/core/resolve", true},
		{"kcp-publisher", "kcp-publisher/internal/command", true},
		{"kcp-publisher/internal/core/plan", "kcp-publisher/internal/publish", false},
		{"kcp-publisher/internal/gitops/follow", "kcp-publisher/internal/components/component", false},
		{"kcp-publisher/internal/attic", "kcp-publisher/internal/core/plan", false},
		{"kcp-publisher/internal/core/plan", "kcp-publisher/internal/takeover/phase", true},
		{"kcp-publisher/internal/core/plan", "kcp-publisher/internal/takeover", false},
		{"kcp-publisher/internal/command", "kcp-publisher/internal/command/status", true},
		{"kcp-publisher/internal/command/status", "kcp-publisher/internal/command/selection", true},
		{"kcp-publisher/internal/command/diff", "kcp-publisher/internal/command/promote", false},
		{"kcp-publisher/internal/command/terminal", "kcp-publisher/internal/command/keyfolder", false},
		{"kcp-publisher/internal/command/attic", "kcp-publisher/internal/command/terminal", false},
		{"skr-agent/internal/agent", "skr-agent/internal/install", true},
		{"skr-agent/internal/install", "skr-agent/internal/agent", false},
	} {
		problem := levelProblem(module+"/"+c.from, module+"/"+c.to)
		if (problem == "") != c.allowed {
			t.Errorf("%s imports %s: allowed must be %t, the result is %q", c.from, c.to, c.allowed, problem)
		}
	}
}

// levelProblem explains why an import between two folders of one program is not allowed. It returns "" if the import is
// allowed.
func levelProblem(from, to string) string {
	for prefix, order := range levels {
		source, inProgram := strings.CutPrefix(from, module+"/"+prefix)
		target, ours := strings.CutPrefix(to, module+"/"+prefix)
		if !inProgram || !ours || folder(source) == folder(target) {
			continue
		}
		high, known := levelOf(order, source)
		low, targetKnown := levelOf(order, target)
		switch {
		case !known || !targetKnown:
			return fmt.Sprintf("%s imports %s: add the folder to levels in integration/layout", from, to)
		case low >= high:
			return fmt.Sprintf("%s (level %d) imports %s (level %d): a folder can import only from lower levels",
				from, high, to, low)
		}
	}
	return ""
}

// levelOf returns the level of a package's folder. If the folder has no level, it returns the level of the nearest
// parent.
func levelOf(order map[string]int, path string) (level int, known bool) {
	if level, known = order[path]; !known {
		level, known = order[folder(path)]
	}
	return level, known
}

func folder(path string) string {
	first, _, _ := strings.Cut(path, "/")
	return first
}

func TestChartsPackageOnlyEmbedsFiles(t *testing.T) {
	for _, p := range packages(t) {
		if p.ImportPath == module+"/charts" &&
			(!slices.Equal(p.Imports, []string{"embed"}) || len(p.EmbedPatterns) == 0) {
			t.Errorf("charts imports %v and embeds %v: it must contain only embeds", p.Imports, p.EmbedPatterns)
		}
	}
}

func TestPackagesHaveSpecificNames(t *testing.T) {
	for _, p := range packages(t) {
		if slices.Contains(emptyNames, p.Name) || slices.Contains(emptyNames, filepath.Base(p.ImportPath)) {
			t.Errorf("%s: package name %s is not specific", p.ImportPath, p.Name)
		}
	}
}

func TestFilesStayShort(t *testing.T) {
	for _, p := range packages(t) {
		for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			path := filepath.Join(p.Dir, name)
			lines, generated, err := measure(path)
			if err != nil {
				t.Errorf("read %s: %v", path, err)
			} else if lines > maxLines && !generated {
				t.Errorf("%s has %d lines, want at most %d: split it by topic", path, lines, maxLines)
			}
		}
	}
}

func TestAgentLinksNoForbiddenPackage(t *testing.T) {
	dependencies := linked(t, "skr-agent")
	if len(dependencies) < 100 {
		t.Fatalf("found only %d dependencies of the agent", len(dependencies))
	}
	for dependency := range dependencies {
		for _, forbidden := range forbiddenInAgent {
			if strings.HasPrefix(dependency, forbidden) {
				t.Errorf("the agent links %s", dependency)
			}
		}
	}
}

// The oracle is a separate module, so the project does not depend on sigstore-go.
func TestProjectDoesNotLinkSigstoreGo(t *testing.T) {
	for path := range allPackages(t) {
		if strings.HasPrefix(path, "github.com/sigstore/sigstore-go") {
			t.Errorf("the project links %s", path)
		}
	}
}

func measure(path string) (lines int, generated bool, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, false, err
	}
	scanner := bufio.NewScanner(bytes.NewReader(content))
	scanner.Buffer(nil, len(content)+1)
	for scanner.Scan() {
		lines++
		line := scanner.Text()
		generated = generated || strings.HasPrefix(line, "// Code generated ") &&
			strings.HasSuffix(line, " DO NOT EDIT.")
	}
	return lines, generated, scanner.Err()
}

// goListOutput caches the output of `go list`, which takes seconds.
var goListOutput map[string]goPackage

// allPackages returns the packages of the project and all packages that they or their tests link, by import path.
func allPackages(t *testing.T) map[string]goPackage {
	t.Helper()
	if goListOutput != nil {
		return goListOutput
	}
	const fields = "ImportPath,Dir,Name,ForTest,DepOnly,ImportMap,Imports,TestImports,XTestImports,GoFiles," +
		"TestGoFiles,XTestGoFiles,EmbedPatterns"
	decoder := json.NewDecoder(bytes.NewReader(goList(t, "-deps", "-test", "-json="+fields, "./...")))
	found := map[string]goPackage{}
	for {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			goListOutput = found
			return goListOutput
		} else if err != nil {
			t.Fatalf("read the output of go list: %v", err)
		}
		found[p.ImportPath] = p
	}
}

// packages returns the packages of the project, sorted by import path.
func packages(t *testing.T) []goPackage {
	t.Helper()
	var own []goPackage
	for _, p := range allPackages(t) {
		if !p.DepOnly && p.ForTest == "" && !strings.HasSuffix(p.ImportPath, ".test") {
			own = append(own, p)
		}
	}
	slices.SortFunc(own, func(a, b goPackage) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	return own
}

// linked returns the import paths of all packages that a package of the project links, including the package itself.
func linked(t *testing.T, name string) map[string]bool {
	t.Helper()
	all, found := allPackages(t), map[string]bool{}
	for next := []string{module + "/" + name}; len(next) > 0; {
		path := next[len(next)-1]
		next = next[:len(next)-1]
		if found[path] {
			continue
		}
		p, known := all[path]
		if !known {
			t.Fatalf("go list did not return %s", path)
		}
		found[path] = true
		for _, imported := range p.Imports {
			if mapped, ok := p.ImportMap[imported]; ok {
				imported = mapped
			}
			next = append(next, imported)
		}
	}
	return found
}

func goList(t *testing.T, args ...string) []byte {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	command.Dir = root(t)
	var problem bytes.Buffer
	command.Stderr = &problem
	output, err := command.Output()
	if err != nil {
		t.Fatalf("go list %v: %v\n%s", args, err, &problem)
	}
	return output
}

func root(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
