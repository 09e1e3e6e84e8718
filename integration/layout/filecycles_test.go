package layout

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// largePackage is the maximum number of lines in a package that TestLargePackagesHaveNoFileCycles does not check.
// Lines in tests and generated files do not count.
const largePackage = 2500

// fileCycles maps each package that still has file cycles to the files in these cycles. In these packages, methods of
// one type call each other across several files. Do not add files.
var fileCycles = map[string]string{
	"integration/bench/scale": `agents bare commands hostile markdown notified promotion publishing restart result
		sizes stages watching world`,
	"integration/chaos": `authorities clones commits disasters enrollments faults installed mandatory mistakes namespaces
		operators planner promises run seen soak stage suspend tap users watch`,
	"integration/fleet": "disaster local notifications runtime share simulated start tokens",
}

// uses maps each file to the files that it uses, with the name of one used declaration for each.
type uses map[string]map[string]string

// TestLargePackagesHaveNoFileCycles requires that a large package's files use each other in one direction only, so that
// a reader can read them in one order.
//
// File A uses file B if A's code refers to a function, method, type or variable that B declares at package level.
// Calling a method of the same type counts, because a type is hard to read if its methods are in files that use each
// other. Two kinds of references do not count: references to constants, and a method's references to its receiver type.
// A cycle is a set of files that use each other directly or through other files in the set.
func TestLargePackagesHaveNoFileCycles(t *testing.T) {
	large := map[string]goPackage{}
	for _, p := range packages(t) {
		if total(t, p) > largePackage {
			large[strings.TrimPrefix(p.ImportPath, module+"/")] = p
		}
	}
	if len(large) < 5 {
		t.Fatalf("found %d large packages", len(large))
	}
	exported := exports(t, slices.Sorted(maps.Keys(large)))
	for _, name := range slices.Sorted(maps.Keys(large)) {
		checkCycles(t, name, usesOf(t, large[name], exported, true), strings.Fields(fileCycles[name]))
		if fileCycles[name] != "" {
			checkCycles(t, name, usesOf(t, large[name], exported, false), nil)
		}
	}
	for name := range fileCycles {
		if _, is := large[name]; !is {
			t.Errorf("%s is not a large package, remove it from fileCycles", name)
		}
	}
}

// checkCycles fails the test if files that are not excepted use each other, or if an excepted file is not in a cycle.
func checkCycles(t *testing.T, name string, files uses, excepted []string) {
	t.Helper()
	var cyclic []string
	for _, cycle := range cyclesIn(files) {
		cyclic = append(cyclic, cycle...)
		if !isSubset(cycle, excepted) {
			t.Errorf("%s: %d files use each other, move declarations until none does:%s", name, len(cycle),
				describe(files, cycle))
		}
	}
	for _, file := range excepted {
		if !slices.Contains(cyclic, file+".go") {
			t.Errorf("%s: %s.go is not in a cycle, remove it from fileCycles", name, file)
		}
	}
}

// isSubset reports whether the list of names contains all files, without the extension .go.
func isSubset(files, names []string) bool {
	return !slices.ContainsFunc(files, func(file string) bool {
		return !slices.Contains(names, strings.TrimSuffix(file, ".go"))
	})
}

func total(t *testing.T, p goPackage) (lines int) {
	t.Helper()
	for _, name := range p.GoFiles {
		n, generated, err := measure(filepath.Join(p.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if !generated {
			lines += n
		}
	}
	return lines
}

// exports maps the import path of each dependency of the packages to the dependency's file with export data. The files
// are in Go's build cache.
func exports(t *testing.T, names []string) map[string]string {
	t.Helper()
	args := []string{"-export", "-deps", "-json=ImportPath,Export"}
	for _, name := range names {
		args = append(args, "./"+name)
	}
	found := map[string]string{}
	decoder := json.NewDecoder(strings.NewReader(string(goList(t, args...))))
	for {
		var p struct{ ImportPath, Export string }
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatalf("read the output of go list: %v", err)
		}
		found[p.ImportPath] = p.Export
	}
}

func usesOf(t *testing.T, p goPackage, exported map[string]string, ownMethods bool) uses {
	t.Helper()
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if !ast.IsGenerated(file) {
			parsed = append(parsed, file)
		}
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exported[path]) }
	files, err := usesIn(fset, p.ImportPath, parsed, importer.ForCompiler(fset, runtime.Compiler, lookup),
		ownMethods)
	if err != nil {
		t.Fatalf("%s: %v", p.ImportPath, err)
	}
	return files
}

// usesIn returns the uses between a package's files. If ownMethods is true, calls to methods of the same type count.
func usesIn(
	fset *token.FileSet, path string, parsed []*ast.File, dependencies types.Importer, ownMethods bool,
) (uses, error) {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	checker := types.Config{Importer: dependencies, Error: func(error) {}} // generated methods may be missing
	own, err := checker.Check(path, fset, parsed, info)
	if own == nil {
		return nil, err
	}
	fileOf := func(at token.Pos) string { return filepath.Base(fset.Position(at).Filename) }
	files := uses{}
	for _, file := range parsed {
		from := fileOf(file.Package)
		files[from] = map[string]string{}
		for _, declaration := range file.Decls {
			var receiver *types.TypeName
			if function, is := declaration.(*ast.FuncDecl); is {
				receiver = receiverOf(info.Defs[function.Name])
			}
			ast.Inspect(declaration, func(n ast.Node) bool {
				name, is := n.(*ast.Ident)
				if !is {
					return true
				}
				object := origin(info.Uses[name])
				if object == nil || object.Pkg() != own || !isUse(object, own.Scope(), receiver, ownMethods) {
					return true
				}
				if to := fileOf(object.Pos()); to != from && to != "." {
					files[from][to] = cmp.Or(files[from][to], object.Name())
				}
				return true
			})
		}
	}
	return files, nil
}

// origin returns the generic declaration of an instantiated function, or the object itself if it is not generic.
func origin(object types.Object) types.Object {
	if function, is := object.(*types.Func); is {
		return function.Origin()
	}
	return object
}

// isUse reports whether a reference to the declaration counts as a use. receiver is the receiver type of the method
// that contains the reference, or nil outside of methods. If ownMethods is true, calls to methods of this type count.
func isUse(object types.Object, scope *types.Scope, receiver *types.TypeName, ownMethods bool) bool {
	switch object := object.(type) {
	case *types.Func:
		of := receiverOf(object)
		return of == nil && object.Parent() == scope || of != nil && (ownMethods || of != receiver)
	case *types.TypeName:
		return object.Parent() == scope && object != receiver
	case *types.Var:
		return object.Parent() == scope
	}
	return false
}

// receiverOf returns the name of a method's receiver type, or nil for other objects and interface methods.
func receiverOf(object types.Object) *types.TypeName {
	function, is := object.(*types.Func)
	if !is || function.Signature().Recv() == nil {
		return nil
	}
	receiver := function.Signature().Recv().Type()
	if pointer, is := receiver.(*types.Pointer); is {
		receiver = pointer.Elem()
	}
	named, is := receiver.(*types.Named)
	if !is || types.IsInterface(named) {
		return nil
	}
	return named.Obj()
}

// cyclesIn returns the sets of files that use each other, found with Tarjan's algorithm.
func cyclesIn(files uses) (cycles [][]string) {
	index, low, onStack := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	var visit func(string)
	visit = func(file string) {
		index[file], low[file] = len(index)+1, len(index)+1
		stack, onStack[file] = append(stack, file), true
		for _, to := range slices.Sorted(maps.Keys(files[file])) {
			if index[to] == 0 {
				visit(to)
				low[file] = min(low[file], low[to])
			} else if onStack[to] {
				low[file] = min(low[file], index[to])
			}
		}
		if low[file] != index[file] {
			return
		}
		at := slices.Index(stack, file)
		cycle := slices.Sorted(slices.Values(stack[at:]))
		for _, member := range cycle {
			onStack[member] = false
		}
		if stack = stack[:at]; len(cycle) > 1 {
			cycles = append(cycles, cycle)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if index[file] == 0 {
			visit(file)
		}
	}
	return cycles
}

func describe(files uses, cycle []string) string {
	var text strings.Builder
	for _, from := range cycle {
		for _, to := range cycle {
			if name := files[from][to]; name != "" {
				fmt.Fprintf(&text, "\n\t%s uses %s of %s", from, name, to)
			}
		}
	}
	return text.String()
}

func TestFileCyclesAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"functions in one direction":     {map[string]string{"a": "func A() { B() }", "b": "func B() {}"}, "[]"},
		"functions that call each other": {map[string]string{"a": "func A() { B() }", "b": "func B() { A() }"}, "[[a b]]"},
		"cycle of three files": {
			map[string]string{"a": "func A() { b() }", "b": "var b = C", "c": "func C() { A() }"}, "[[a b c]]",
		},
		"types that contain each other": {
			map[string]string{"a": "type A struct{ b *B }", "b": "type B struct{ a *A }"}, "[[a b]]",
		},
		"methods of one type in one direction": {
			map[string]string{"a": "type T struct{}\nfunc (t *T) A() { t.B() }", "b": "func (t *T) B() {}"}, "[]",
		},
		"methods of one type that call each other": {
			map[string]string{"a": "type T struct{}\nfunc (t *T) A() { t.B() }", "b": "func (t *T) B() { t.A() }"}, "[[a b]]",
		},
		"constructor and method": {
			map[string]string{
				"a": "type T struct{}\nfunc New() *T { t := &T{}; t.B(); return t }", "b": "func (t *T) B() { New() }",
			},
			"[[a b]]",
		},
		"methods of two types": {
			map[string]string{
				"a": "type A struct{}\nfunc (a A) M(b B) { b.M(a) }", "b": "type B struct{}\nfunc (b B) M(a A) { a.M(b) }",
			},
			"[[a b]]",
		},
		"constants": {map[string]string{"a": "const a = 1\nvar A = b", "b": "const b = 1\nvar B = a"}, "[]"},
		"methods of a generic type": {
			map[string]string{
				"a": "type T[V any] struct{}\nfunc (t *T[V]) A() { t.B() }", "b": "func (t *T[V]) B() { t.A() }",
			},
			"[[a b]]",
		},
	} {
		fset := token.NewFileSet()
		var parsed []*ast.File
		for _, file := range slices.Sorted(maps.Keys(c.files)) {
			one, err := parser.ParseFile(fset, file, "package p\n"+c.files[file], 0)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, one)
		}
		files, err := usesIn(fset, "p", parsed, nil, true)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := fmt.Sprint(cyclesIn(files)); got != c.want {
			t.Errorf("%s: got cycles %s, want %s", name, got, c.want)
		}
	}
}
