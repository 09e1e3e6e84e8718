package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// privateWords lists project-specific expressions and the standard terms that operators would search for instead.
var privateWords = []struct{ word, instead string }{
	{`lives? by`, "has applied"},
	{`liv(e|ing) by`, "has applied"},
	{`give[ns]? up|gave up|giving up`, "roll back, stop, time out"},
	{`farewell|says? goodbye`, "deletion, finalize"},
	{`let(s|ting)? go`, "finalize, release"},
	{`put back as the module has it`, "reverted drift"},
	{`well again`, "recovered"},
	{`is nothing that this version`, "cannot be decoded by"},
	{`not looked after`, "unmanaged"},
	{`taken up|takes? up`, "load"},
	{`whoever|nobody gets`, "name the role"},
	{`anew`, "again"},
	{`for ever`, "permanently"},
	{`its time is over|whose time is over`, "expired"},
	{`thief`, "attacker"},
	{`enr[o]l(s|ments?)?`, "enroll"},
	{`census|inhabitant`, "fleet, member"},
}

// onTheWire lists strings in the wire format, whose spelling must not change.
var onTheWire = []string{"kyma-pull enrolment v1", "kyma-pull enrolment"}

func TestUserFacingTextsUseStandardTerms(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		if strings.HasPrefix(name, "integration") || strings.HasPrefix(name, "hack") {
			continue
		}
		for _, file := range p.GoFiles {
			checkWords(t, filepath.Join(p.Dir, file), filepath.Join(name, file))
		}
	}
}

func checkWords(t *testing.T, path, name string) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatalf("parse %s: %v", name, err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok && field.Tag != nil {
			return false // skip struct tags, which are contracts
		}
		if spec, ok := n.(*ast.TypeSpec); ok &&
			regexp.MustCompile(`(?i)census|inhabitant|farewell`).MatchString(spec.Name.Name) {
			t.Errorf("%s:%d: type %s does not use the standard term", name, set.Position(spec.Pos()).Line,
				spec.Name.Name)
		}
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil || !strings.Contains(text, " ") || slices.Contains(onTheWire, text) {
			return true // skip single words, which are names in the wire format
		}
		for _, w := range privateWords {
			if found := regexp.MustCompile(`(?i)\b(` + w.word + `)\b`).FindString(text); found != "" {
				t.Errorf("%s:%d: %q is not a standard term, use %s", name, set.Position(literal.Pos()).Line, found,
					w.instead)
			}
		}
		return true
	})
}
