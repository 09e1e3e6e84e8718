package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// matchers lists the functions that search a string for another string.
var matchers = []string{
	"strings.Contains", "strings.ContainsAny", "strings.HasPrefix", "strings.HasSuffix", "strings.Index",
	"strings.LastIndex", "strings.Cut", "strings.CutPrefix",
	"strings.CutSuffix", "strings.EqualFold", "regexp.MatchString",
}

// messagesRead contains the files that can match error messages, and the reason for each, such as a library without
// typed errors.
var messagesRead = map[string]string{
	"kcp-publisher/internal/gitops/git/failure.go": "x/crypto/ssh has no typed error for a rejected login",
	"kcp-publisher/internal/controller/record.go":  "etcd's limit on requests arrives as text of the API server",
	"kcp-publisher/internal/web/ui/query.go":       "a user searches the messages",
	"skr-agent/internal/objects/crds.go":           "admission webhooks, policies and quotas have no typed error",
	"skr-agent/internal/install/account/errors.go": "server-side apply has no typed error for a wrong type",
	"skr-agent/internal/install/account/writes.go": "field errors name immutable fields in text only",
	"internal/render/schema.go":                    "the first line of a schema's error is removed for display",
	"internal/cli/clusterhint.go": "the API server distinguishes a missing permission from a policy by " +
		"text only",

	"kcp-publisher/internal/core/permission/policy.go": "the API server passes the refusal of a policy on as text only",
}

// Code must read a typed reason instead of searching in a Message field or in the result of Error().
func TestNoCodeMatchesErrorMessages(t *testing.T) {
	used := map[string]bool{}
	for _, top := range []string{"apis", "bundle", "internal", "kcp-publisher", "skr-agent"} {
		err := filepath.WalkDir(filepath.Join("..", "..", top), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			parsed, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			name := filepath.ToSlash(strings.TrimPrefix(path, filepath.Join("..", "..")+string(filepath.Separator)))
			ast.Inspect(parsed, func(n ast.Node) bool {
				call, is := n.(*ast.CallExpr)
				if !is || !matchesMessage(call) {
					return true
				}
				if used[name] = true; messagesRead[name] == "" {
					t.Errorf("%s:%d: matches a message: set a reason where the error occurs (bundle/reason)", name,
						files.Position(call.Pos()).Line)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, why := range messagesRead {
		if why != "" && !used[name] {
			t.Errorf("%s no longer matches a message: remove its exception", name)
		}
	}
}

// matchesMessage reports whether a call searches the text of an error message.
func matchesMessage(call *ast.CallExpr) bool {
	function, is := call.Fun.(*ast.SelectorExpr)
	if !is {
		return false
	}
	owner, _ := function.X.(*ast.Ident)
	matches := owner != nil && slices.Contains(matchers, owner.Name+"."+function.Sel.Name)
	for _, method := range []string{"MatchString", "FindString", "FindStringSubmatch", "FindStringIndex",
		"ReplaceAllString"} {
		matches = matches || function.Sel.Name == method
	}
	return matches && slices.ContainsFunc(call.Args, isMessage)
}

func isMessage(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.SelectorExpr:
			found = found || x.Sel.Name == "Message"
		case *ast.CallExpr:
			if s, is := x.Fun.(*ast.SelectorExpr); is && s.Sel.Name == "Error" && len(x.Args) == 0 {
				found = true
			}
		}
		return !found
	})
	return found
}

func TestComparisonsWithMessagesAreFound(t *testing.T) {
	for text, want := range map[string]bool{
		`strings.Contains(c.Message, "x")`: true, `strings.HasSuffix(err.Error(), "x")`: true,
		`pattern.MatchString(m.Message)`:                          true,
		`strings.Contains(strings.ToLower(r.Cause.Message), "x")`: true, `strings.Contains(name, "x")`: false,
		`log.Error(err, c.Message)`: false,
	} {
		e, err := parser.ParseExpr(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := matchesMessage(e.(*ast.CallExpr)); got != want {
			t.Errorf("%s: got %t", text, got)
		}
	}
}
