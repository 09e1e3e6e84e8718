package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// reader is a test together with all declarations of its package.
type reader struct {
	test string
	// declared contains the package's declarations and methods by name. Declarations with the same name are merged.
	declared map[string]*declaration
}

// declaration contains the names and string literals in a function or variable.
type declaration struct{ uses, texts []string }

// names reports whether the test refers to a page by name, directly or in a function of its package that it calls.
func (r reader) names(page string) bool {
	seen, next := map[string]bool{r.test: true}, []string{r.test}
	for len(next) > 0 {
		d := r.declared[next[0]]
		next = next[1:]
		for _, text := range d.texts {
			if text == page || page != "README.md" && strings.HasSuffix(text, "/"+page) { // many README.md exist
				return true
			}
		}
		for _, name := range d.uses {
			if r.declared[name] != nil && !seen[name] {
				seen[name] = true
				next = append(next, name)
			}
		}
	}
	return false
}

// pageName returns a page's name in tests: its file name, prefixed with the chart if several charts have a file with
// this name.
func pageName(page string) string {
	switch path.Base(page) {
	case "README.md":
		if folder := path.Base(path.Dir(page)); folder != "." {
			return folder + "/README.md"
		}
	case "NOTES.txt":
		return "templates/NOTES.txt"
	}
	return path.Base(page)
}

// readTests returns all tests in the project, by name.
func readTests(t *testing.T) map[string]reader {
	t.Helper()
	packages, tests := map[string]map[string]*declaration{}, map[string]reader{}
	for _, file := range tracked(t, "**/*_test.go") {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), file), nil,
			parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		declared := packages[path.Dir(file)]
		if declared == nil {
			declared = map[string]*declaration{}
			packages[path.Dir(file)] = declared
		}
		for _, d := range parsed.Decls {
			for _, name := range read(d, declared) {
				if strings.HasPrefix(name, "Test") {
					tests[name] = reader{name, declared}
				}
			}
		}
	}
	return tests
}

// read adds a declaration to declared and returns the declared names.
func read(d ast.Decl, declared map[string]*declaration) (names []string) {
	var all []ast.Node
	switch d := d.(type) {
	case *ast.FuncDecl:
		names, all = []string{d.Name.Name}, []ast.Node{d}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if values, ok := spec.(*ast.ValueSpec); ok {
				for _, name := range values.Names {
					names, all = append(names, name.Name), append(all, values)
				}
			}
		}
	}
	for i, name := range names {
		if declared[name] == nil {
			declared[name] = &declaration{}
		}
		declared[name].read(all[i])
	}
	return names
}

func (d *declaration) read(from ast.Node) {
	ast.Inspect(from, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.Ident:
			d.uses = append(d.uses, node.Name)
		case *ast.BasicLit:
			if node.Kind == token.STRING {
				d.texts = append(d.texts, strings.Trim(node.Value, "`\""))
			}
		}
		return true
	})
}

func TestDocumentedTestMustReadItsPage(t *testing.T) {
	tests := readTests(t)
	for _, c := range []struct {
		test, page string
		want       bool
	}{
		{commit, "git.md", true},
		{commit, "airgap.md", false},
		{converted, "upgrade-and-skew.md", true}, // the function that refers to the page is in another file
		{charts, "kcp-publisher/README.md", true},
		{charts, "README.md", false}, // a chart's README.md, not the project's
		{operators, "stolen-keys.md", false},
	} {
		if got := tests[c.test].names(c.page); got != c.want {
			t.Errorf("%s reads %s: %t", c.test, c.page, got)
		}
	}
}
