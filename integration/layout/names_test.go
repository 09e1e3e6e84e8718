package layout

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the references of names")

const (
	operatorAPI = "apis/operator/v1beta2"
	fleetAPI    = "apis/fleet/v1alpha1"
)

// constant is an exported API constant with its comment.
type constant struct{ name, value, about string }

func TestReferenceOfAnnotationsAndLabelsIsCurrent(t *testing.T) {
	constants := apiConstants(t, operatorAPI, 80)
	var page strings.Builder
	page.WriteString(
		"# Annotations and labels\n\nThis page lists the annotations, labels and finalizers that " +
			"`apis/operator/v1beta2` defines. " +
			"`make generate` writes this page.\n" +
			"Names below `operator.kyma-project.io` and `kyma-project.io` are Kyma's own; those below `kyma-pull.dev` " +
			"are this project's.\n")
	writeTable(&page, "Annotations", "annotation", withPrefix(constants, "Annotation"))
	writeTable(&page, "Labels", "label", withPrefix(constants, "Label"))
	writeTable(&page, "Finalizers", "finalizer", withPrefix(constants, "Finalizer"))
	checkReference(t, "docs/reference/annotations-and-labels.md", page.String())
}

func TestReferenceOfConditionsAndReasonsIsCurrent(t *testing.T) {
	constants, rollouts := apiConstants(t, operatorAPI, 80), apiConstants(t, fleetAPI, 20)
	var page strings.Builder
	page.WriteString(
		"# Conditions and reasons\n\nThis page lists the conditions of Kymas, Manifests and Watchers, and the reasons of " +
			"conditions and Events, which\n`apis/operator/v1beta2` defines. The [conditions and reasons of Rollouts and " +
			"PromotionPolicies](#conditions-of-rollouts-and-promotionpolicies)\nare defined in `apis/fleet/v1alpha1`. " +
			"`make generate` writes this page.\n" +
			"Reasons of refused bundles are in [attacks](attacks.md#attacks-on-bundles), reasons for publishing a " +
			"bundle " +
			"in\n" +
			"[metrics](metrics.md#why-bundles-are-published).\n")
	writeTable(&page, "Conditions", "condition", withPrefix(constants, "Condition"))
	writeTable(&page, "Reasons", "reason", withPrefix(constants, "Reason"))
	writeTable(&page, "States", "state", withPrefix(constants, "State"))
	writeTable(&page, "Conditions of Rollouts and PromotionPolicies", "condition", withPrefix(rollouts, "Condition"))
	writeTable(&page, "Reasons of Events on Rollouts and RolloutPolicies", "reason", withPrefix(rollouts, "Reason"))
	writeTable(&page, "Reasons of versions in PromotionPolicies", "reason", withPrefix(rollouts, "Wait"))
	writeTable(&page, "Reasons of PromotionPolicies and of Events on them", "reason", withPrefix(rollouts, "Policy"))
	writeTable(&page, "States of Rollouts", "state", withPrefix(rollouts, "Rollout"))
	writeTable(&page, "States of waves", "state", withPrefix(rollouts, "Wave"))
	checkReference(t, "docs/reference/conditions-and-reasons.md", page.String())
}

// The reasons are values for a metric label and for a field in `publish` output.
func TestReferenceListsReasonsForPublishingBundles(t *testing.T) {
	const page, begin, end = "docs/reference/metrics.md", "<!-- reasons of bundles -->\n",
		"<!-- end of reasons of bundles -->\n"
	before, rest, begins := strings.Cut(readFile(t, page), begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has no section between the comments %q and %q", page, begin, end)
	}
	var table strings.Builder
	table.WriteString("| reason | meaning |\n|---|---|\n")
	for _, c := range withPrefix(apiConstants(t, "kcp-publisher/internal/core/plan", 19), "Reason") {
		fmt.Fprintf(&table, "| `%s` | %s |\n", c.value, c.about)
	}
	checkReference(t, page, before+begin+table.String()+end+after)
}

func checkReference(t *testing.T, page, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.Join(root(t), page), []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(filepath.Join(root(t), page)); err != nil || string(got) != want {
		t.Errorf("%s is not current: run make generate (%v)", page, err)
	}
}

func withPrefix(constants []constant, prefix string) []constant {
	var some []constant
	for _, c := range constants {
		if strings.HasPrefix(c.name, prefix) {
			some = append(some, c)
		}
	}
	slices.SortFunc(some, func(a, b constant) int { return strings.Compare(a.value, b.value) })
	return some
}

func writeTable(page *strings.Builder, title, column string, constants []constant) {
	fmt.Fprintf(page, "\n## %s\n\n| %s | in Go | meaning |\n|---|---|---|\n", title, column)
	for _, c := range constants {
		fmt.Fprintf(page, "| `%s` | `%s` | %s |\n", c.value, c.name, c.about)
	}
}

// apiConstants reads a folder's constants with their comments. If one line declares several names, only the first name
// gets the comment.
func apiConstants(t *testing.T, folder string, some int) []constant {
	t.Helper()
	specs, abouts := constantSpecs(t, folder)
	values := map[string]string{}
	var found []constant
	for range 3 { // a constant can refer to a later constant
		for _, spec := range specs {
			for i, name := range spec.Names {
				if i < len(spec.Values) {
					if text, ok := constantText(spec.Values[i], values); ok {
						values[name.Name] = text
					}
				}
			}
		}
	}
	for i, spec := range specs {
		for _, name := range spec.Names {
			if text, ok := values[name.Name]; ok && name.IsExported() {
				found = append(found, constant{name.Name, text, abouts[i]})
			}
		}
	}
	if len(found) < some {
		t.Fatalf("found only %d constants in %s", len(found), folder)
	}
	for i, c := range explain(found) {
		if c.about == "" && onAPage.MatchString(c.name) {
			t.Errorf("%s has no comment: describe its meaning", c.name)
		}
		found[i] = c
	}
	return found
}

// onAPage matches the constant names that must be listed on a reference page.
var onAPage = regexp.MustCompile(`^(Annotation|Label|Finalizer|Condition|Reason|State|Rollout|Wave)[A-Z]`)

// constantSpecs returns constant declarations and their comments.
func constantSpecs(t *testing.T, folder string) (specs []*ast.ValueSpec, abouts []string) {
	t.Helper()
	for _, file := range tracked(t, folder+"/*.go") {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(filepath.Base(file), "zz_") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), file), nil,
			parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range parsed.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			about := ""
			for _, spec := range group.Specs {
				value, ok := spec.(*ast.ValueSpec)
				if !ok {
					continue
				}
				if doc := strings.Join(strings.Fields(value.Doc.Text()), " "); doc != "" ||
					!strings.Contains(about, value.Names[0].Name) {
					about = doc
				}
				specs, abouts = append(specs, value), append(abouts, about)
			}
		}
	}
	return specs, abouts
}

var oursMark = regexp.MustCompile(`\bis ours: |\bare ours: `)

// explain replaces constant names in their comments with the constants' values.
func explain(found []constant) []constant {
	byName := map[string]string{}
	for _, c := range found {
		byName[c.name] = c.value
	}
	word := regexp.MustCompile(`\b[A-Z][A-Za-z0-9]+\b`)
	for i, c := range found {
		about := strings.ReplaceAll(oursMark.ReplaceAllString(c.about, ": "), " : ", ": ")
		about = strings.TrimPrefix(about, c.name+": ")
		about = word.ReplaceAllStringFunc(about, func(w string) string {
			if value, ok := byName[w]; ok && strings.ContainsAny(w[1:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
				return "`" + value + "`"
			}
			return w
		})
		found[i].about = strings.ReplaceAll(about, "|", "\\|")
	}
	return found
}

func constantText(expression ast.Expr, values map[string]string) (string, bool) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		text, ok := values[e.Name]
		return text, ok
	case *ast.BinaryExpr:
		left, ok := constantText(e.X, values)
		right, also := constantText(e.Y, values)
		return left + right, ok && also
	case *ast.CallExpr: // string(StateReady)
		if to, ok := e.Fun.(*ast.Ident); ok && to.Name == "string" && len(e.Args) == 1 {
			return constantText(e.Args[0], values)
		}
	}
	return "", false
}
