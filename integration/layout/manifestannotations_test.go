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

const (
	// maxManifestAnnotations limits the number of annotations that the agent itself sets on Manifests.
	maxManifestAnnotations = 5
	onManifest             = "set on a Manifest by the agent"
)

// agentAnnotations describes each annotation that the agent uses on Manifests and on the objects of modules. A new
// field of a Manifest usually belongs in record.Record, not in an annotation.
var agentAnnotations = map[string]string{
	"AnnotationImages": onManifest, "AnnotationKymas": onManifest, "AnnotationModule": onManifest,
	"AnnotationRecord": onManifest, "AnnotationValues": onManifest,

	"AnnotationRecreate":         "set on a Manifest by a bundle",
	"AnnotationRequiresFeatures": "set on a Manifest by a bundle",
	"AnnotationUsesValues":       "set on a Manifest by a bundle",
	"AnnotationAdopt":            "set on a module's object by its owner",
	"AnnotationDeleteWithData":   "set on a module's object by its owner",
	"AnnotationMovesFrom":        "set on a module's object in the content",
	"AnnotationMovesTo":          "set on a module's object in the content",
	"AnnotationPinnedVersions":   "set on the runtime's Kyma",

	"AnnotationCustomStateCheck":  "of lifecycle-manager",
	"AnnotationFQDN":              "of lifecycle-manager",
	"AnnotationOwnedBy":           "of lifecycle-manager",
	"AnnotationOwnedByDeprecated": "of lifecycle-manager",
	"AnnotationUnmanaged":         "of lifecycle-manager",
}

// allowedLiterals maps each file that is allowed to contain a string literal with the prefix kyma-pull.dev/ to the
// reason for the exception.
var allowedLiterals = map[string]string{
	"skr-agent/internal/record/former.go":         "annotations of version 0.1.0, which the agent only reads",
	"skr-agent/internal/install/drift/watches.go": "marks in the cache of watches, which the cluster does not store",
	"internal/guard/interception.go":              "prefix of labels",
}

func TestAgentSetsFewAnnotationsOnManifests(t *testing.T) {
	used := map[string]bool{}
	for _, folder := range []string{"record", "takeover", "objects", "install"} {
		err := filepath.WalkDir(filepath.Join("..", "..", "skr-agent", "internal", folder),
			func(path string, entry os.DirEntry, err error) error {
				if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
					return err
				}
				return annotationsIn(t, path, used)
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	own := 0
	for name, use := range agentAnnotations {
		if !used[name] {
			t.Errorf("v1beta2.%s is not used: remove it from agentAnnotations", name)
		}
		if use == onManifest {
			own++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if agentAnnotations[name] == "" {
			t.Errorf("v1beta2.%s is not in agentAnnotations: keep the agent's state in record.Record", name)
		}
	}
	if own > maxManifestAnnotations {
		t.Errorf("the agent sets %d annotations on Manifests, must be at most %d", own, maxManifestAnnotations)
	}
}

// annotationsIn adds the v1beta2 annotation constants in a file to the map used. It returns an error if the file itself
// defines one of the project's annotations.
func annotationsIn(t *testing.T, path string, used map[string]bool) error {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return err
	}
	name := filepath.ToSlash(strings.TrimPrefix(path, filepath.Join("..", "..")+string(filepath.Separator)))
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, is := n.X.(*ast.Ident); is && x.Name == "v1beta2" && strings.HasPrefix(n.Sel.Name, "Annotation") {
				used[n.Sel.Name] = true
			}
		case *ast.BasicLit:
			if strings.HasPrefix(n.Value, `"kyma-pull.dev/`) && allowedLiterals[name] == "" {
				t.Errorf("%s: %s must be a constant of package v1beta2", name, n.Value)
			}
		}
		return true
	})
	return nil
}
