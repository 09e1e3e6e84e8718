package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// packageState lists the package variables that can change after the start of a program, with the reason for each. The
// key is FOLDER VARIABLE.
var packageState = map[string]string{
	"kcp-publisher/internal/gitops/git opening":  "golang.org/x/net/proxy stores dialers in a variable",
	"kcp-publisher/internal/gitops/git sessions": "golang.org/x/net/proxy stores dialers in a variable",
	"internal/measure definedMetrics":            "variables define metrics for the generated reference",
	"internal/render kustomizeLock":              "kyaml stores schemas in package variables",
}

// Two parts of a process, such as two shards or two tests, share package variables. State must therefore be in a value
// that a constructor returns.
func TestPackagesHaveNoMutableVariables(t *testing.T) {
	folders := map[string][]*ast.File{}
	for name, file := range parseProduct(t, token.NewFileSet()) {
		folders[path.Dir(name)] = append(folders[path.Dir(name)], file)
	}
	found := map[string]bool{}
	for folder, files := range folders {
		for _, name := range mutableVariables(files) {
			place := folder + " " + name
			if found[place] = true; packageState[place] == "" {
				t.Errorf("%s: variable %s changes after the start of the program: make it a field of a type", folder, name)
			}
		}
	}
	for place := range packageState {
		if !found[place] {
			t.Errorf("%s does not change, remove its exception", place)
		}
	}
}

// mutableVariables returns the names of package variables that one of the package's functions writes, and of package
// variables with a lock or an atomic value.
func mutableVariables(files []*ast.File) []string {
	p := packageScope{variables: map[string]*ast.ValueSpec{}, types: map[string]ast.Expr{}, results: map[string]ast.Expr{}}
	for _, file := range files {
		p.addDeclared(file)
	}
	found := map[string]bool{}
	for name, spec := range p.variables {
		found[name] = p.isSynchronized(p.typeOf(name, spec), 0)
	}
	for _, file := range files {
		for _, declaration := range file.Decls {
			if function, is := declaration.(*ast.FuncDecl); is && function.Body != nil {
				p.addWritten(found, function)
			}
		}
	}
	maps.DeleteFunc(found, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(found))
}

// packageScope contains a package's declarations: the variables, the types, and the first result of each function.
type packageScope struct {
	variables      map[string]*ast.ValueSpec
	types, results map[string]ast.Expr
}

func (p packageScope) addDeclared(file *ast.File) {
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Type.Results != nil {
				p.results[d.Name.Name] = d.Type.Results.List[0].Type
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					p.types[s.Name.Name] = s.Type
				case *ast.ValueSpec:
					for _, name := range s.Names {
						if d.Tok == token.VAR && name.Name != "_" {
							p.variables[name.Name] = s
						}
					}
				}
			}
		}
	}
}

// typeOf returns the type of a variable, or nil if it is from another package.
func (p packageScope) typeOf(name string, spec *ast.ValueSpec) ast.Expr {
	at := slices.IndexFunc(spec.Names, func(n *ast.Ident) bool { return n.Name == name })
	if spec.Type != nil || at >= len(spec.Values) {
		return spec.Type
	}
	value := spec.Values[at]
	if address, is := value.(*ast.UnaryExpr); is {
		value = address.X
	}
	switch v := value.(type) {
	case *ast.CompositeLit:
		return v.Type
	case *ast.CallExpr:
		if function, is := v.Fun.(*ast.Ident); is {
			return p.results[function.Name]
		}
	}
	return nil
}

// isSynchronized reports whether a type contains a lock or an atomic value. depth is the recursion depth.
func (p packageScope) isSynchronized(e ast.Expr, depth int) bool {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		owner, _ := e.X.(*ast.Ident)
		return owner != nil && (owner.Name == "sync" || owner.Name == "atomic")
	case *ast.StarExpr:
		return p.isSynchronized(e.X, depth)
	case *ast.IndexExpr:
		return p.isSynchronized(e.X, depth)
	case *ast.Ident:
		return depth < 5 && p.types[e.Name] != nil && p.isSynchronized(p.types[e.Name], depth+1)
	case *ast.StructType:
		return slices.ContainsFunc(e.Fields.List, func(f *ast.Field) bool { return p.isSynchronized(f.Type, depth+1) })
	}
	return false
}

// addWritten adds the package variables that a function writes, except those that a local variable hides. Functions
// named init run before the start of the program.
func (p packageScope) addWritten(found map[string]bool, function *ast.FuncDecl) {
	if function.Name.Name == "init" && function.Recv == nil {
		return
	}
	local := localNames(function)
	write := func(e ast.Expr) {
		if name := rootName(e); p.variables[name] != nil && !local[name] {
			found[name] = true
		}
	}
	ast.Inspect(function.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, to := range n.Lhs {
					write(to)
				}
			}
		case *ast.IncDecStmt:
			write(n.X)
		case *ast.CallExpr:
			if isName(n.Fun, "delete") || isName(n.Fun, "clear") || isName(n.Fun, "copy") {
				write(n.Args[0])
			}
		}
		return true
	})
}

// localNames returns the names that a function declares: its receiver, parameters, results and variables.
func localNames(function *ast.FuncDecl) map[string]bool {
	names := map[string]bool{}
	add := func(e ast.Expr) {
		if name, is := e.(*ast.Ident); is {
			names[name.Name] = true
		}
	}
	ast.Inspect(function, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				names[name.Name] = true
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				names[name.Name] = true
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, to := range n.Lhs {
					add(to)
				}
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(n.Key)
				if n.Value != nil {
					add(n.Value)
				}
			}
		}
		return true
	})
	return names
}

// rootName returns the name of the variable that an assignment to the expression changes.
func rootName(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x.Name
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return ""
		}
	}
}

func TestMutableVariablesAreFound(t *testing.T) {
	for code, want := range map[string]string{
		`var known = map[string]bool{}; func F() { known["a"] = true }`:  "known",
		`var known = map[string]bool{}; func F() { delete(known, "a") }`: "known",
		`var all []int; func F() { all = append(all, 1) }`:               "all",
		`var count int; func F() { func() { count++ }() }`:               "count",
		`var last struct{ name string }; func F() { last.name = "a" }`:   "last",
		`var mu sync.Mutex`:             "mu",
		`var next atomic.Int64`:         "next",
		`var s struct{ mu sync.Mutex }`: "s",
		`type T struct { x *U }; type U struct { once sync.Once }; var s = &T{}`:       "s",
		`type T struct { mu sync.Mutex }; func New() *T { return nil }; var s = New()`: "s",

		`var known = map[string]bool{"a": true}; func F() bool { return known["a"] }`:        "",
		`var known = map[string]bool{}; func init() { known["a"] = true }`:                   "",
		`var known = map[string]bool{}; func F(known map[string]bool) { known["a"] = true }`: "",
		`var all []int; func F() { all := all; all[0] = 1; for all = range 1 {} }`:           "",
		`var pattern = regexp.MustCompile("a")`:                                              "",
		`var env = sync.OnceValue(func() int { return 1 })`:                                  "",
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p; "+code, 0)
		if err != nil {
			t.Fatalf("%s: %v", code, err)
		}
		if got := strings.Join(mutableVariables([]*ast.File{file}), " "); got != want {
			t.Errorf("%s: got %q, want %q", code, got, want)
		}
	}
}
