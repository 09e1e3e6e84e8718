package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// messageFields lists the names of fields that contain text for people.
var messageFields = []string{"Message", "Detail", "Note", "Operation", "Problem"}

// matchers lists the functions in the packages strings and bytes that search or split text.
var matchers = []string{
	"Contains", "ContainsAny", "ContainsFunc", "ContainsRune", "Count", "Cut", "CutPrefix", "CutSuffix",
	"EqualFold", "Fields", "FieldsFunc", "FieldsFuncSeq", "FieldsSeq", "HasPrefix", "HasSuffix", "Index", "IndexAny",
	"IndexByte", "IndexFunc", "IndexRune", "LastIndex", "LastIndexAny", "LastIndexByte", "Lines", "Split", "SplitAfter",
	"SplitAfterN", "SplitAfterSeq", "SplitN", "SplitSeq", "TrimPrefix", "TrimSuffix",
}

// patternMethods lists methods of regexp.Regexp.
var patternMethods = []string{
	"FindAllString", "FindAllStringSubmatch", "FindString", "FindStringIndex", "FindStringSubmatch", "Match",
	"MatchString", "ReplaceAllString", "ReplaceAllStringFunc",
}

// messagesRead lists the functions that are allowed to read messages, grouped by the reason, such as a library without
// typed errors. A function is written as FILE FUNCTION or FILE TYPE.METHOD.
var messagesRead = map[string][]string{
	"the text is shortened for display": {
		"bundle/strict/yaml.go ParseYAML",
		"internal/render/schema.go checkSchema",
		"internal/render/values.go checkExpansion",
		"kcp-publisher/internal/schema/crdschema/crdschema.go problemDetail",
		"skr-agent/internal/install/account/errors.go apiMessage",
	},
	"the API server describes denials by webhooks, policies and quotas only as text": {
		"internal/cli/clusterhint.go clusterHint",
		"kcp-publisher/internal/core/permission/policy.go installedRevision",
		"skr-agent/internal/objects/denials.go DenierOf",
		"skr-agent/internal/objects/denials.go IsDenied",
		"skr-agent/internal/objects/denials.go IsIntercepted",
	},
	"server-side apply has no typed error for a value of a wrong type": {
		"skr-agent/internal/install/account/errors.go IsMistake",
	},
	"field errors name immutable fields only as text": {
		"skr-agent/internal/install/account/writes.go namesImmutableFields",
	},
	"the API server returns etcd's limit on requests as an internal error": {
		"kcp-publisher/internal/controller/record.go isUnwritable",
	},
	"x/crypto/ssh has no typed error for a rejected login": {
		"kcp-publisher/internal/gitops/git/failure.go Repository.fetchError",
	},
	"a user searches the messages": {"kcp-publisher/internal/web/ui/query.go matchesSearch"},
	"a test helper finds formatting errors": {
		"bundle/trust/trusttest/trusttest.go WantReason",
	},
}

// Code must read a typed reason instead of the text of an error or message.
func TestNoCodeMatchesErrorMessages(t *testing.T) {
	used, fset := map[string]bool{}, token.NewFileSet()
	files, constants := parseProduct(t, fset), map[string]bool{}
	for _, file := range files {
		addConstantNames(constants, file)
	}
	excepted := slices.Concat(slices.Collect(maps.Values(messagesRead))...)
	for name, file := range files {
		for _, declaration := range file.Decls {
			for _, at := range findMatches(declaration, constants) {
				place := name + " " + nameOf(declaration)
				if used[place] = true; !slices.Contains(excepted, place) {
					t.Errorf("%s:%d: %s matches a message: set a reason where the error occurs (bundle/reason)", name,
						fset.Position(at).Line, nameOf(declaration))
				}
			}
		}
	}
	for _, place := range excepted {
		if !used[place] {
			t.Errorf("%s does not match a message, remove its exception", place)
		}
	}
}

// parseProduct returns the files of both programs and their libraries, without tests. The keys are their paths.
func parseProduct(t *testing.T, fset *token.FileSet) map[string]*ast.File {
	t.Helper()
	files, root := map[string]*ast.File{}, filepath.Join("..", "..")
	for _, top := range []string{"apis", "bundle", "internal", "kcp-publisher", "skr-agent"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			files[filepath.ToSlash(name)], err = parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// addConstantNames adds the names of the constants that a file declares at package level.
func addConstantNames(constants map[string]bool, file *ast.File) {
	for _, declaration := range file.Decls {
		group, is := declaration.(*ast.GenDecl)
		if !is || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			for _, name := range spec.(*ast.ValueSpec).Names {
				constants[name.Name] = true
			}
		}
	}
}

// nameOf returns FUNCTION or TYPE.METHOD, or "" for other declarations.
func nameOf(declaration ast.Decl) string {
	function, is := declaration.(*ast.FuncDecl)
	if !is {
		return ""
	}
	if function.Recv == nil {
		return function.Name.Name
	}
	receiver := function.Recv.List[0].Type
	if pointer, is := receiver.(*ast.StarExpr); is {
		receiver = pointer.X
	}
	if generic, is := receiver.(*ast.IndexExpr); is {
		receiver = generic.X
	}
	return receiver.(*ast.Ident).Name + "." + function.Name.Name
}

// findMatches returns the positions where the code of a declaration depends on the text of a message. The map
// constants contains the names of constants.
func findMatches(declaration ast.Node, constants map[string]bool) (found []token.Pos) {
	m := messages{variables: map[string]bool{}, constants: constants}
	for before := -1; before != len(m.variables); { // a variable can be assigned from another one
		before = len(m.variables)
		ast.Inspect(declaration, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				m.addAssigned(n.Lhs, n.Rhs)
			case *ast.ValueSpec:
				for i := range min(len(n.Names), len(n.Values)) {
					m.addAssigned([]ast.Expr{n.Names[i]}, n.Values[i:i+1])
				}
			}
			return true
		})
	}
	ast.Inspect(declaration, func(n ast.Node) bool {
		if m.isMatch(n) {
			found = append(found, n.Pos())
		}
		return true
	})
	return found
}

// messages recognizes messages in the code of one function. variables contains the names of the local variables that
// contain a message.
type messages struct{ variables, constants map[string]bool }

// addAssigned adds the variables that an assignment sets to a message.
func (m messages) addAssigned(variables, values []ast.Expr) {
	if len(variables) != len(values) {
		return
	}
	for i, value := range values {
		variable, is := variables[i].(*ast.Ident)
		if is && m.isMessage(value) {
			m.variables[variable.Name] = true
		}
	}
}

// isMatch reports whether an expression or a switch statement depends on the text of a message. A comparison with an
// empty string does not count, and a comparison with another variable, such as the last logged message, does not count
// either.
func (m messages) isMatch(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		return isMatcher(n.Fun) && slices.ContainsFunc(n.Args, m.contains)
	case *ast.BinaryExpr:
		return (n.Op == token.EQL || n.Op == token.NEQ) && (m.isMessage(n.X) && m.isFixedText(n.Y) ||
			m.isMessage(n.Y) && m.isFixedText(n.X))
	case *ast.SwitchStmt:
		return n.Tag != nil && m.isMessage(n.Tag)
	}
	return false
}

func isMatcher(function ast.Expr) bool {
	selector, is := function.(*ast.SelectorExpr)
	if !is {
		return false
	}
	owner, _ := selector.X.(*ast.Ident)
	return owner != nil && (owner.Name == "strings" || owner.Name == "bytes") &&
		slices.Contains(matchers, selector.Sel.Name) || slices.Contains(patternMethods, selector.Sel.Name)
}

// isFixedText reports whether an expression is a constant string other than the empty string.
func (m messages) isFixedText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING && e.Value != `""`
	case *ast.Ident:
		return m.constants[e.Name]
	case *ast.SelectorExpr:
		return m.constants[e.Sel.Name]
	}
	return false
}

// contains reports whether an expression contains a message, such as an argument of a nested call.
func (m messages) contains(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		inner, is := n.(ast.Expr)
		found = found || is && m.isMessage(inner)
		selector, is := n.(*ast.SelectorExpr)
		return !found && (!is || !isLocal(selector.X))
	})
	return found
}

// isMessage reports whether the value of an expression is a message or a part of one.
func (m messages) isMessage(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return m.variables[e.Name]
	case *ast.SelectorExpr:
		return slices.Contains(messageFields, e.Sel.Name)
	case *ast.ParenExpr:
		return m.isMessage(e.X)
	case *ast.SliceExpr:
		return m.isMessage(e.X)
	case *ast.BinaryExpr:
		return e.Op == token.ADD && (m.isMessage(e.X) || m.isMessage(e.Y))
	case *ast.CallExpr:
		return m.returnsMessage(e)
	}
	return false
}

// returnsMessage reports whether a call returns a message: Error(), or a function that formats or converts one.
func (m messages) returnsMessage(call *ast.CallExpr) bool {
	if isName(call.Fun, "string") {
		return m.isMessage(call.Args[0])
	}
	if conversion, is := call.Fun.(*ast.ArrayType); is && isName(conversion.Elt, "byte") {
		return m.isMessage(call.Args[0])
	}
	selector, is := call.Fun.(*ast.SelectorExpr)
	switch {
	case !is:
		return false
	case selector.Sel.Name == "Error":
		return len(call.Args) == 0
	case isName(selector.X, "fmt") && strings.HasPrefix(selector.Sel.Name, "Sprint"):
		return slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return m.isMessage(e) || isError(e) })
	case isName(selector.X, "strings"):
		return slices.ContainsFunc(call.Args, m.isMessage)
	}
	return false
}

// isError reports whether an expression is an error according to its name.
func isError(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return strings.HasSuffix(strings.ToLower(e.Name), "err")
	case *ast.SelectorExpr:
		return isError(e.Sel)
	}
	return false
}

func isLocal(e ast.Expr) bool {
	_, is := e.(*ast.Ident)
	return is
}

func isName(e ast.Expr, name string) bool {
	identifier, is := e.(*ast.Ident)
	return is && identifier.Name == name
}

func TestCodeThatReadsMessagesIsFound(t *testing.T) {
	for body, want := range map[string]int{
		`strings.Contains(c.Message, "x")`:                                                   1,
		`strings.HasSuffix(err.Error(), "x")`:                                                1,
		`bytes.Contains([]byte(err.Error()), x)`:                                             1,
		`pattern.MatchString(m.Message)`:                                                     1,
		`strings.Contains(strings.ToLower(r.Cause.Message), "x")`:                            1,
		`strings.Contains(fmt.Sprint(err), "x")`:                                             1,
		`strings.Contains(fmt.Sprintf("%v", f.Err), "x")`:                                    1,
		`strings.TrimPrefix(refused.Detail, "x")`:                                            1,
		`strings.Split(note.Note, ":")`:                                                      1,
		`strings.EqualFold("x", last.Operation)`:                                             1,
		`_ = r.Problem == "x"`:                                                               1,
		`_ = "x" != err.Error()`:                                                             1,
		`_ = c.Message == plan.held`:                                                         1,
		`switch c.Message { case "x": }`:                                                     1,
		`text := err.Error(); strings.HasPrefix(text, "x")`:                                  1,
		`var text = err.Error(); _ = text == "x"`:                                            1,
		`a := "x: " + c.Message; b := a; strings.Cut(b, ":")`:                                1,
		`a := err.Error(); a = strings.ToLower(a); strings.Fields(a); strings.Count(a, "x")`: 2,

		`strings.Contains(name, "x")`:                       0,
		`log.Error(err, c.Message)`:                         0,
		`_ = c.Message == ""`:                               0,
		`_ = c.Message != last.Message`:                     0,
		`text := err.Error(); _ = text != s.logged`:         0,
		`_ = entry.Operation == metav1.ApplyOperation`:      0,
		`c := T{Message: "x"}; strings.Contains(c.Name, x)`: 0,
		`n := len(c.Message); _ = n == 1`:                   0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc f() {\n"+body+"\n}", 0)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if got := findMatches(file.Decls[0], map[string]bool{"held": true}); len(got) != want {
			t.Errorf("%s: found %d matches, want %d", body, len(got), want)
		}
	}
}
