package scenario

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// The test builds both programs with stubs for their takeover packages, and installs, upgrades and removes a module.
func TestProgramsWorkWithoutTakeovers(t *testing.T) {
	suite.Long(t)
	ctx := t.Context()
	f := newFleet(t, fleet.Options{Programs: withoutTakeovers(t)})
	if output, err := f.Ask(ctx, "takeover", "status"); err == nil {
		t.Errorf("the publisher has the command takeover: %s", output)
	}
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	must(t, f.Release(ctx, "scaler", sample.Scaler("").Component(), sample.Channel("regular", "1.8.0")))
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	deleteKyma(t, f, r)
	untilForgotten(t, r, fleet.LongTimeout)
}

// takeoverStubs maps the import path of a package to the stub that replaces it.
var takeoverStubs = map[string]string{
	"kcp-publisher/internal/takeover":         "publisher.go",
	"kcp-publisher/internal/takeover/phase":   "publisher-phase.go",
	"kcp-publisher/internal/takeover/command": "publisher-command.go",
	"skr-agent/internal/takeover":             "agent.go",
}

// TestTakeoverStubsCoverAllUsedNames is the fast part of TestProgramsWorkWithoutTakeovers.
func TestTakeoverStubsCoverAllUsedNames(t *testing.T) {
	root := filepath.Join("..", "..")
	declared := map[string][]string{}
	for folder, stub := range takeoverStubs {
		file := parse(t, filepath.Join("testdata", "notakeover", stub))
		declared[folder] = append(declarations(file), fields(file)...)
	}
	uses := 0
	for _, program := range []string{"kcp-publisher", "skr-agent"} {
		must(t, filepath.WalkDir(filepath.Join(root, program), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.Contains(path, "/internal/takeover/") {
				return err
			}
			file := parse(t, path)
			for _, imported := range file.Imports {
				folder := strings.TrimPrefix(strings.Trim(imported.Path.Value, `"`), "github.com/kyma-pull/kyma-pull/")
				names, stubbed := declared[folder]
				if !stubbed {
					continue
				}
				name := filepath.Base(folder)
				if imported.Name != nil {
					name = imported.Name.Name
				}
				for _, used := range selected(file, name) {
					uses++
					if !slices.Contains(names, used) {
						t.Errorf("%s uses %s.%s, but testdata/notakeover/%s does not declare %s", path, name, used,
							takeoverStubs[folder], used)
					}
				}
			}
			return nil
		}))
	}
	if uses == 0 {
		t.Error("no program uses a takeover package")
	}
}

func parse(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	must(t, err)
	return file
}

// declarations returns the names that a file declares at package level, without methods.
func declarations(file *ast.File) (names []string) {
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name.Name)
				case *ast.ValueSpec:
					for _, name := range s.Names {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

// fields returns the fields of all structs that a file declares, as "Struct.Field".
func fields(file *ast.File) (names []string) {
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if structure, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range structure.Fields.List {
				for _, name := range field.Names {
					names = append(names, spec.Name.Name+"."+name.Name)
				}
			}
		}
		return false
	})
	return names
}

// selected returns the identifiers from package pkg that a file uses. A field that the file sets in a struct of the
// package is "Struct.Field".
func selected(file *ast.File, pkg string) (names []string) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.SelectorExpr:
			if name, ok := memberOf(pkg, n); ok {
				names = append(names, name)
			}
		case *ast.CompositeLit:
			structure, ok := memberOf(pkg, n.Type)
			if !ok {
				return true
			}
			for _, element := range n.Elts {
				if pair, ok := element.(*ast.KeyValueExpr); ok {
					names = append(names, fmt.Sprintf("%s.%s", structure, pair.Key))
				}
			}
		}
		return true
	})
	return names
}

// memberOf returns the name after the package in an expression such as takeover.Facts.
func memberOf(pkg string, expression ast.Expr) (name string, ok bool) {
	selector, ok := expression.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	x, ok := selector.X.(*ast.Ident)
	return selector.Sel.Name, ok && x.Name == pkg
}

// withoutTakeovers builds the programs with stubs for the takeover packages.
func withoutTakeovers(t *testing.T) fleet.Binaries {
	t.Helper()
	dir := t.TempDir()
	build(t, "-ldflags", "-s -w", "-o", dir+"/", "./kcp-publisher", "./skr-agent")
	return fleet.Binaries{Publisher: filepath.Join(dir, "kcp-publisher"), Agent: filepath.Join(dir, "skr-agent")}
}

// build runs `go build` with stubs for the takeover packages.
func build(t *testing.T, args ...string) {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	must(t, err)
	stubs := filepath.Join(root, "integration", "scenario", "testdata", "notakeover")
	publisher := filepath.Join(root, "kcp-publisher", "internal", "takeover")
	agent := filepath.Join(root, "skr-agent", "internal", "takeover")
	replace := map[string]string{}
	for _, folder := range []string{publisher, agent} {
		must(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(entry.Name(), ".go") {
				replace[path] = "" // an empty path removes the file from the build
			}
			return err
		}))
	}
	for folder, stub := range takeoverStubs {
		replace[filepath.Join(root, folder, "stub.go")] = filepath.Join(stubs, stub)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	must(t, err)
	file := filepath.Join(t.TempDir(), "overlay.json")
	must(t, os.WriteFile(file, overlay, 0o600))
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"build", "-overlay", file}, args...)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the programs without takeovers: %v\n%s", err, output)
	}
}
