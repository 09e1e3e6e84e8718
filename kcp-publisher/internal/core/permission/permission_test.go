package permission

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

var update = flag.Bool("update", false, "write the policy, the Role and the page")

const root = "../../../.."

func TestReferenceOfKymaSettingsIsCurrent(t *testing.T) {
	for path, want := range map[string]string{
		"charts/kcp-publisher/policy/settings.yaml": policyYAML(),
		"charts/kcp-publisher/rbac/operator.yaml":   operatorRoleYAML(),
		"docs/reference/kyma-settings.md":           referencePage(),
	} {
		path = filepath.Join(root, path)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil { //nolint:gosec // a file of the repository
				t.Fatal(err)
			}
		}
		if have, err := os.ReadFile(path); err != nil || string(have) != want {
			t.Errorf("%s is not current (%v): run make generate", path, err)
		}
	}
}

// The publisher needs all verbs to apply Kymas from a Git repository.
func TestGitRoleContainsAllVerbs(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "charts/kcp-publisher/rbac/git.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.Role
	if err := yaml.Unmarshal([]byte(strings.Split(string(data), "\n---\n")[0]), &role); err != nil {
		t.Fatal(err)
	}
	var granted []string
	for _, rule := range role.Rules {
		if slices.Equal(rule.Resources, []string{resourceKymas}) {
			granted = append(granted, rule.Verbs...)
		}
	}
	if want := verbs(); !slices.Equal(slices.Sorted(slices.Values(granted)), want) {
		t.Errorf("rbac/git.yaml has the verbs %s, want %s", granted, want)
	}
}

// The revision lets a publisher detect that an older chart's policy is incomplete.
func TestPolicyRevisionIncreasesWithNewSettings(t *testing.T) {
	digests := []string{"becc0330", "5b9dfcb3"}
	var keys strings.Builder
	for _, s := range Settings {
		fmt.Fprintln(&keys, s.Place, s.Key, s.Verb)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256([]byte(keys.String())))[:8]; len(digests) != Revision ||
		got != digests[Revision-1] {
		t.Errorf("the settings have the digest %s: increase Revision, and add the digest to this test", got)
	}
}

// exempt lists the annotations, labels and fields that do not require permission, by reason.
var exempt = map[string][]string{
	"only requests modules; large removals wait for approval": {
		"LabelSync",
		"AnnotationSyncCatalog",
		"AnnotationNoModuleCopy",
		"LabelBeta",
		"LabelInternal",
		"Channel",
		"Modules",
	},
	"only suspends or reconciles the author's own runtime": {
		"LabelSkipReconciliation", "AnnotationSuspendReason", "AnnotationReconcileRequested",
	},
	"only configures modules of the author's own runtime":                {"AnnotationValues"},
	"only adds report details of the author's own runtime":               {"AnnotationReportDetails"},
	"does not prove ownership of the runtime; the enrollment token does": {"LabelRuntimeID"},
	"only describes the runtime; set by Kyma's provisioning": {
		"LabelPurpose",
		"LabelInstanceID",
		"LabelGlobalAccountID",
		"LabelSubaccountID",
		"LabelRegion",
		"LabelPlatformRegion",
		"LabelPlan",
	},
	"is reverted by the publisher": {"LabelShard"},
	"has no effect on bundles": {
		"AnnotationGitCommit",
		"AnnotationGitDigest",
		"AnnotationPrune",
		"LabelManagedBy",
		"LabelWatchedBy",
	},
	"is refused for every user":               {"AnnotationPermissionProbe"},
	"is only read from the Kyma in a runtime": {"AnnotationUpgradeAt"},
	"is not read from Kymas": {
		"AnnotationAdopt",
		"AnnotationAllowPrune",
		"AnnotationClusterScoped",
		"AnnotationContentChunks",
		"AnnotationContentDigest",
		"AnnotationContentName",
		"AnnotationContentSize",
		"AnnotationCustomStateCheck",
		"AnnotationDeleteWithData",
		"AnnotationFQDN",
		"AnnotationFailedImage",
		"AnnotationFormerImages",
		"AnnotationHoldPromotion",
		"AnnotationIgnoreFields",
		"AnnotationImages",
		"AnnotationKymas",
		"AnnotationMissingChannel",
		"AnnotationModule",
		"AnnotationMovesFrom",
		"AnnotationMovesTo",
		"AnnotationOwnedBy",
		"AnnotationOwnedByDeprecated",
		"AnnotationProvenImage",
		"AnnotationPublicFields",
		"AnnotationRecord",
		"AnnotationRecreate",
		"AnnotationRequiresFeatures",
		"AnnotationRootOfTrust",
		"AnnotationSecretName",
		"AnnotationSecretNamespace",
		"AnnotationTarget",
		"AnnotationUnmanaged",
		"AnnotationUndecidedImage", "AnnotationRequestedImage",
		"AnnotationUnprovenStarts",
		"AnnotationUsesValues",
		"LabelChannel",
		"LabelContent",
		"LabelHoldPromotion",
		"LabelContentDigest",
		"LabelControllerName",
		"LabelKymaName",
		"LabelMandatoryModule",
		"LabelModuleName",
		"LabelSealed",
		"LabelSecretFor",
		"LabelSignature",
	},
}

// Each new annotation, label or field of a Kyma must be added to Settings or exempt.
func TestEverySettingIsRestrictedOrExempt(t *testing.T) {
	restricted := map[string]bool{}
	for _, s := range Settings {
		restricted[s.Key] = true
	}
	free := map[string]bool{}
	for _, names := range exempt {
		for _, name := range names {
			if free[name] {
				t.Errorf("%s is exempt twice", name)
			}
			free[name] = true
		}
	}
	known := map[string]bool{}
	check := func(name string, is bool) {
		known[name] = true
		if is == free[name] {
			t.Errorf("%s: restricted %t, exempt %t: add it to Settings, or to exempt with the reason", name, is,
				free[name])
		}
	}
	for name, selector := range apiNames(t) {
		check(name, restricted[selector])
	}
	spec := reflect.TypeFor[v1beta2.KymaSpec]()
	for i := range spec.NumField() {
		key, _, _ := strings.Cut(spec.Field(i).Tag.Get("json"), ",")
		check(spec.Field(i).Name, restricted["spec."+key])
	}
	for name := range free {
		if !known[name] {
			t.Errorf("%s is exempt but does not exist", name)
		}
	}
}

func apiNames(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "apis/operator/v1beta2/*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found no files in apis/operator/v1beta2: %v", err)
	}
	names := map[string]string{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			if !is {
				return true
			}
			for i, name := range spec.Names {
				if strings.HasPrefix(name.Name, "Annotation") || strings.HasPrefix(name.Name, "Label") {
					names[name.Name] = valueOf(spec.Values[i])
				}
			}
			return true
		})
	}
	if len(names) < 50 {
		t.Fatalf("found only %d annotation and label constants, want at least 50", len(names))
	}
	return names
}

func valueOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		return strings.Trim(e.Value, `"`)
	case *ast.BinaryExpr:
		return valueOf(e.X) + valueOf(e.Y)
	case *ast.Ident:
		return v1beta2.Group
	}
	return ""
}

func TestOnlyIgnoredSettingsAreRemovedFromAKyma(t *testing.T) {
	kyma := &v1beta2.Kyma{}
	kyma.Annotations, kyma.Labels = map[string]string{"mine": "a"}, map[string]string{"mine": "l"}
	for _, s := range Settings {
		switch s.Place {
		case Annotation:
			kyma.Annotations[s.Key] = "true"
		case Label:
			kyma.Labels[s.Key] = "true"
		case Field:
			kyma.Spec.SkipMaintenanceWindows = true
		}
	}
	cached, shared := kyma.DeepCopy(), *kyma
	RemoveSettings(kyma, IgnoredSettings(kyma))
	if !reflect.DeepEqual(&shared, cached) {
		t.Error("the shared maps of the cached Kyma were changed")
	}
	if left := IgnoredSettings(kyma); len(left) > 0 {
		t.Errorf("settings %s are still set, want none", JoinKeys(left))
	}
	for _, s := range Settings {
		if s.HonoredReason != "" && !s.isSet(kyma) {
			t.Errorf("%s was removed, although it is honored", s.Key)
		}
	}
	if kyma.Annotations["mine"] != "a" || kyma.Labels["mine"] != "l" {
		t.Error("other annotations or labels were removed")
	}
}

func TestProbeResultDependsOnPolicyRevision(t *testing.T) {
	for name, c := range map[string]struct {
		err                error
		enforced, outdated bool
	}{
		"probe that is allowed": {nil, false, false},
		"probe rejected by the current policy": {
			fmt.Errorf("denied request: %s%d", refusalPrefix, Revision), true, false,
		},
		"probe rejected by a newer policy": {
			fmt.Errorf("denied request: %s%d", refusalPrefix, Revision+1), true, false,
		},
		"probe rejected by an older policy": {
			fmt.Errorf("denied request: %s%d", refusalPrefix, Revision-1), false, true,
		},
		"probe rejected by a quota":                   {errors.New("denied request: quota"), false, false},
		"probe rejected by a revision that overflows": {fmt.Errorf("%s99999999999999999999", refusalPrefix), false, true},
	} {
		if got := IsEnforced(c.err); got != c.enforced {
			t.Errorf("%s: got enforced %t, want %t", name, got, c.enforced)
		}
		if got := IsOutdated(c.err); got != c.outdated {
			t.Errorf("%s: got outdated %t, want %t", name, got, c.outdated)
		}
	}
	var patch metav1.PartialObjectMetadata
	if err := yaml.UnmarshalStrict(Probe(), &patch); err != nil ||
		patch.Annotations[v1beta2.AnnotationPermissionProbe] == "" {
		t.Errorf("probe %s has no annotation: %v", Probe(), err)
	}
}

// The UI does not change restricted settings of Kymas, so its roles do not need these verbs.
func TestUIRolesContainNoRestrictedVerbs(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "charts/kcp-publisher/rbac/ui.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(string(data), "\n---\n") {
		var role rbacv1.Role
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, verb := range verbs() {
				if slices.Contains(rule.Verbs, verb) {
					t.Errorf("role %s has the verb %s", role.Name, verb)
				}
			}
		}
	}
}
