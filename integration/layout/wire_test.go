package layout

import (
	"fmt"
	"go/ast"
	goconstant "go/constant"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

const wirePage = "docs/reference/wire-format.md"

// The tables on the page are generated from the code. The other tests in this file check the rest of the page.
func TestReferenceOfTheWireFormatIsCurrent(t *testing.T) {
	page := readFile(t, wirePage)
	for name, table := range map[string]string{
		"limits": limitsTable(t), "statement": fieldsTable[bundle.Predicate](t, "statement.go", "Predicate"),
		"audience": fieldsTable[bundle.Audience](t, "statement.go", "Audience"),
		"report":   fieldsTable[bundle.Report](t, "report.go", "Report"),
	} {
		begin, end := "<!-- "+name+", written by make generate -->\n", "<!-- end of "+name+" -->"
		before, rest, found := strings.Cut(page, begin)
		_, after, also := strings.Cut(rest, end)
		if !found || !also {
			t.Fatalf("%s has no %q followed by %q", wirePage, begin, end)
		}
		page = before + begin + table + end + after
	}
	checkReference(t, wirePage, page)
}

// Names in the wire format must never change. The page must list exactly the names in bundle/names.go.
func TestWireFormatPageListsAllNames(t *testing.T) {
	page := readFile(t, wirePage)
	known := map[string]bool{bundle.MediaTypeSigstoreBundle: true}
	values := constantsOf(t, "bundle", "names.go")
	if len(values) < 20 {
		t.Fatalf("names.go has only the constants %v", slices.Sorted(maps.Keys(values)))
	}
	for name, c := range values {
		value := goconstant.StringVal(c.value)
		known[value] = true
		if !regexp.MustCompile("[`:/]" + regexp.QuoteMeta(value)).MatchString(page) {
			t.Errorf("%s does not contain %s, %q", wirePage, name, value)
		}
	}
	for _, found := range regexp.MustCompile(
		"`(application/vnd\\.kyma-pull[^`]*|dev\\.kyma-pull[^`]*|https://kyma-pull\\.dev/[^`]*)`").
		FindAllStringSubmatch(page, -1) {
		if !known[found[1]] {
			t.Errorf("%s has %q, which bundle/names.go does not", wirePage, found[1])
		}
	}
	runtime := "berlin"
	for _, where := range []string{
		bundle.DesiredRepository(runtime) + ":" + bundle.TagDesired, bundle.ReportRepository(runtime) + ":" +
			bundle.TagLatest,
		bundle.TrustRepository + ":" + bundle.RootTag(3), bundle.ImageRepository("registry.example:5000/scaler"),
	} {
		if !strings.Contains(page, "`"+where+"`") {
			t.Errorf("%s does not show %q", wirePage, where)
		}
	}
	for _, role := range []string{trust.RoleRoot, trust.RolePublisher, trust.RoleEnroll, trust.RoleRelease} {
		if !strings.Contains(page, "`"+role) {
			t.Errorf("%s does not contain the role %q", wirePage, role)
		}
	}
}

// limit is a constant with its comment.
type limit struct {
	value goconstant.Value
	about string
}

// constantsOf reads the constants in a package, or in some of its files.
func constantsOf(t *testing.T, folder string, only ...string) map[string]limit {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root(t), folder))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]limit{}
	for range 2 { // a constant can refer to a constant in another file
		for _, entry := range entries {
			name := entry.Name()
			if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || len(only) > 0 &&
				!slices.Contains(only, name) {
				continue
			}
			addConstants(found, parsed(t, path.Join(folder, name)))
		}
	}
	return found
}

func parsed(t *testing.T, file string) *ast.File {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), file), nil,
		parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func addConstants(found map[string]limit, file *ast.File) {
	for _, declaration := range file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			one := spec.(*ast.ValueSpec) //nolint:forcetypeassert // constants are always value specs in go/ast
			about := one.Doc.Text()
			if about == "" {
				about = group.Doc.Text()
			}
			for i, name := range one.Names {
				if i < len(one.Values) {
					if value := evaluate(one.Values[i], found); value != nil {
						found[name.Name] = limit{value, strings.Join(strings.Fields(about), " ")}
					}
				}
			}
		}
	}
}

// evaluate computes a constant expression of literals and the constants in known. It returns nil for other
// expressions.
func evaluate(expression ast.Expr, known map[string]limit) goconstant.Value {
	switch e := expression.(type) {
	case *ast.BasicLit:
		return goconstant.MakeFromLiteral(e.Value, e.Kind, 0)
	case *ast.Ident:
		return known[e.Name].value
	case *ast.SelectorExpr:
		if unit, ok := map[string]time.Duration{"Hour": time.Hour, "Minute": time.Minute,
			"Second": time.Second}[e.Sel.Name]; ok {
			return goconstant.MakeInt64(int64(unit))
		}
	case *ast.BinaryExpr:
		left, right := evaluate(e.X, known), evaluate(e.Y, known)
		if left == nil || right == nil {
			return nil
		}
		if e.Op == token.SHL {
			places, _ := goconstant.Uint64Val(right)
			return goconstant.Shift(left, e.Op, uint(places))
		}
		return goconstant.BinaryOp(left, e.Op, right)
	}
	return nil
}

func limitsTable(t *testing.T) string {
	t.Helper()
	var table strings.Builder
	table.WriteString("| limit | constant | description |\n|---|---|---|\n")
	rows := 0
	for _, folder := range []string{"bundle", "bundle/trust", "bundle/ocm", "bundle/airgap"} {
		values := constantsOf(t, folder)
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if strings.HasPrefix(name, "Max") {
				fmt.Fprintf(&table, "| %s | `%s.%s` | %s |\n", shownLimit(name, values[name].value), path.Base(folder),
					name, inTable(values[name].about))
				rows++
			}
		}
	}
	if rows < 25 {
		t.Errorf("found only %d limits", rows)
	}
	return table.String()
}

func shownLimit(name string, value goconstant.Value) string {
	n, _ := goconstant.Int64Val(value)
	switch {
	case !strings.HasSuffix(name, "Bytes") && n >= int64(time.Second): // a duration, because no count limit is that high
		return time.Duration(n).String()
	case !strings.HasSuffix(name, "Bytes"):
		return fmt.Sprint(n)
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// fieldsTable returns a table with the JSON names of a document's fields, and the comments from the document's Go type.
func fieldsTable[T any](t *testing.T, file, name string) string {
	t.Helper()
	abouts := map[string]string{}
	ast.Inspect(parsed(t, path.Join("bundle", file)), func(n ast.Node) bool {
		declared, ok := n.(*ast.TypeSpec)
		if !ok || declared.Name.Name != name {
			return true
		}
		for _, field := range declared.Type.(*ast.StructType).Fields.List { //nolint:forcetypeassert // the caller names structs
			for _, n := range field.Names {
				abouts[n.Name] = strings.Join(strings.Fields(field.Doc.Text()+field.Comment.Text()), " ")
			}
		}
		return false
	})
	var table strings.Builder
	table.WriteString("| field | required | description |\n|---|---|---|\n")
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		key, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if key == "" || key == "-" {
			continue
		}
		always := "yes"
		if strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero") {
			always = ""
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", key, always, inTable(abouts[field.Name]))
	}
	return table.String()
}
