package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// constructors maps each file that is allowed to create an HTTP client or transport to the reason for the exception.
// All other files must use store.NewClient, which limits redirects and addresses.
var constructors = map[string]string{
	"bundle/store/outgoing.go":                    "store.NewClient",
	"bundle/store/registry.go":                    "registries; egress.go refuses private addresses after redirects",
	"bundle/store/egress.go":                      "the dialer of registries and of store.NewClient",
	"bundle/store/stream.go":                      "notifications, with the dialer of registries and without redirects",
	"kcp-publisher/internal/web/access/acting.go": "the API server, with client-go's transport and without redirects",
	"internal/checks/probe/endpoint.go":           "endpoints of Services in the runtime, without redirects",
	"internal/cloudauth/cloudtest/cloudtest.go":   "a client of tests that connects only to a local server",
	"internal/checks/probe/probe.go":              "a field for the transport of endpoint.go",
}

// A client without CheckRedirect follows ten redirects to any address.
func TestEveryHTTPClientHasARedirectRule(t *testing.T) {
	found := map[string]bool{}
	for _, folder := range []string{"apis", "bundle", "internal", "kcp-publisher", "skr-agent"} {
		err := filepath.WalkDir(
			filepath.Join("..", "..", folder),
			func(path string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") ||
					strings.HasSuffix(path, "_test.go") {
					return err
				}
				file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
				if err != nil {
					return err
				}
				name := filepath.ToSlash(strings.TrimPrefix(path, filepath.Join("..", "..")+string(filepath.Separator)))
				ast.Inspect(file, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.CompositeLit:
						if isHTTP(n.Type, "Client") {
							found[name] = true
							if constructors[name] == "" {
								t.Errorf("%s creates an http.Client: use store.NewClient", name)
							}
						}
						if isHTTP(n.Type, "Client") && !slices.ContainsFunc(n.Elts, setsRedirects) {
							t.Errorf(
								"%s creates an http.Client without CheckRedirect: set a rule, such as "+
									"store.SameHostRedirects",
								name,
							)
						}
					case *ast.SelectorExpr:
						switch {
						case isHTTP(n, "DefaultClient"),
							isHTTP(n, "Get"),
							isHTTP(n, "Post"),
							isHTTP(n, "Head"),
							isHTTP(n, "PostForm"):
							t.Errorf("%s uses http.%s, which follows redirects to any address: create a client", name,
								n.Sel.Name)
						case isHTTP(n, "DefaultTransport"), isHTTP(n, "Transport"):
							found[name] = true
							if constructors[name] == "" {
								t.Errorf("%s creates a transport: use store.NewClient", name)
							}
						}
					}
					return true
				})
				return nil
			},
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range constructors {
		if !found[name] {
			t.Errorf("%s does not create a client or transport: remove it from this test", name)
		}
	}
}

func setsRedirects(e ast.Expr) bool {
	pair, is := e.(*ast.KeyValueExpr)
	if !is {
		return false
	}
	key, is := pair.Key.(*ast.Ident)
	return is && key.Name == "CheckRedirect"
}

// isHTTP reports whether an expression refers to this identifier in package net/http.
func isHTTP(e ast.Expr, name string) bool {
	selector, is := e.(*ast.SelectorExpr)
	if !is || selector.Sel.Name != name {
		return false
	}
	from, is := selector.X.(*ast.Ident)
	return is && from.Name == "http"
}
