package resolve

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestCatalogShowsAvailableModules(t *testing.T) {
	w := newWorld().template("open", "1.0.0").meta("open", "regular=1.0.0").
		template("beta", "1.0.0").meta("beta", "regular=1.0.0").
		edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Beta = true }).
		template("inner", "1.0.0").meta("inner", "regular=1.0.0").
		edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Internal = true }).
		template("blue", "1.0.0").meta("blue", "regular=1.0.0").edit(selecting("blue", v1beta2.True)).
		template("must", "1.0.0").meta("must").edit(mandatoryMeta("1.0.0")).
		template("must-too", "1.0.0", mandatory, described("must-too", "1.0.0")).
		older("older", "older", "regular", "1.0.0").
		older("older-beta", "older-beta", "regular", "1.0.0", labelledTemplate(v1beta2.LabelBeta, v1beta2.True))
	for name, c := range map[string]struct {
		labels           []string
		templates, metas string
	}{
		"Kyma without labels sees unrestricted modules": {nil, "older open-1.0.0", "open"},
		"Beta Kyma also sees beta modules": {
			[]string{v1beta2.LabelBeta}, "beta-1.0.0 older older-beta open-1.0.0", "beta open"},
		"Internal Kyma also sees internal modules": {
			[]string{v1beta2.LabelInternal}, "inner-1.0.0 older open-1.0.0", "inner open",
		},
		"Selected Kyma also sees the modules that select it": {
			[]string{"blue"}, "blue-1.0.0 older open-1.0.0", "blue open",
		},
		"Label without a selector has no effect": {[]string{"green"}, "older open-1.0.0", "open"},
	} {
		t.Run(name, func(t *testing.T) {
			shown := w.labeled(c.labels...).resolve(t).Catalog
			if got := names(shown.ModuleTemplates); got != c.templates {
				t.Errorf("got ModuleTemplates %q, want %q", got, c.templates)
			}
			if got := names(shown.ModuleReleaseMetas); got != c.metas {
				t.Errorf("got ModuleReleaseMetas %q, want %q", got, c.metas)
			}
		})
	}
}

func names(entries []bundle.CatalogEntry) string {
	var all []string
	for _, e := range entries {
		all = append(all, e.Name)
	}
	return strings.Join(all, " ")
}

func TestRequestedModulesIncludeUnresolvedModules(t *testing.T) {
	w := usualWorld().ask("nope").ask("apart", unmanaged).template("watch", "1.0.0").meta("watch").
		edit(mandatoryMeta("7.0.0"))
	if got := w.resolve(t).RequestedNames; !slices.Equal(got, []string{"apart", "keda", "nope", "watch"}) {
		t.Errorf("got asked modules %v, want apart, keda, nope and watch", got)
	}
}

func TestComponentsOfResolvableModulesAreListed(t *testing.T) {
	w := usualWorld().ask("nope").template("watch", "2.0.0").meta("watch").edit(mandatoryMeta("2.0.0"))
	want := []ComponentNeed{
		{ComponentRef: ComponentRef{Component: prefix + "keda", Version: "1.0.0"}}, {
			ComponentRef: ComponentRef{Component: prefix + "watch", Version: "2.0.0"},
		},
	}
	if got := ListNeeds(w.request, w.snapshot(t)); !slices.Equal(got, want) {
		t.Errorf("got needs %v, want %v", got, want)
	}
}

func TestDocumentsDoNotIdentifyTheirRuntime(t *testing.T) {
	w := usualWorld()
	w.request.Seed = w.request.Requested
	w.request.Labels = map[string]string{v1beta2.LabelRuntimeID: "r-secret", v1beta2.LabelInstanceID: "i-secret",
		v1beta2.LabelGlobalAccountID: "g-secret",
		v1beta2.LabelSubaccountID:    "s-secret", v1beta2.LabelBeta: v1beta2.True}
	result := w.resolve(t)
	documents := encoded(t, result)
	for _, blob := range []bundle.Blob{documents.State, documents.Catalog} {
		if strings.Contains(string(blob.Bytes), "secret") {
			t.Errorf("the document identifies its runtime: %s", blob.Bytes)
		}
	}
	if labels := result.State.Kyma.Labels; labels[v1beta2.LabelBeta] != v1beta2.True ||
		labels[v1beta2.LabelManagedBy] != v1beta2.ManagedByKyma ||
		labels[v1beta2.LabelWatchedBy] != v1beta2.ManagedByKyma {
		t.Errorf("got seed labels %v, want beta, managed-by and watched-by", result.State.Kyma.Labels)
	}
	w.request.CopiedLabels = map[string]string{v1beta2.LabelGlobalAccountID: "g-secret"}
	if labels := w.resolve(t).State.Kyma.Labels; labels[v1beta2.LabelGlobalAccountID] != "g-secret" ||
		labels[v1beta2.LabelSubaccountID] != "" || labels[v1beta2.LabelBeta] != v1beta2.True {
		t.Errorf("with an additional label: got seed labels %v, want the global account ID and beta", labels)
	}
}

func TestResolveDoesNotModifyItsRequest(t *testing.T) {
	w := usualWorld().ask("other").published(t)
	w.request.Seed = w.request.Requested
	before, err := json.Marshal(w.request)
	if err != nil {
		t.Fatal(err)
	}
	w.askNothingBut("keda", unmanaged)
	w.resolve(t)
	w.request.Requested = w.request.Seed
	if after, err := json.Marshal(w.request); err != nil || string(after) != string(before) {
		t.Errorf("error %v: got %s\nwant %s", err, after, before)
	}
}

func TestRemovalsListUnrequestedModules(t *testing.T) {
	for name, c := range map[string]struct {
		installed, asked []string
		confirmed        map[string]bool
		want             []string
	}{
		"Runtime without modules": {nil, []string{"a"}, nil, nil},
		"Requested module stays":  {[]string{"a"}, []string{"a"}, nil, nil},
		"List of unrequested modules is sorted without duplicates": {
			[]string{"c", "b", "c"}, []string{"a"}, nil, []string{"b", "c"},
		},
		"Confirmed removal is not repeated": {
			[]string{"b", "c"}, nil, map[string]bool{"b": true}, []string{"c"},
		},
		"Unconfirmed removal is repeated": {
			[]string{"b"}, nil, map[string]bool{"b": false}, []string{"b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := RemovedNames(c.installed, c.asked, c.confirmed); !slices.Equal(got, c.want) {
				t.Errorf("got removals %v, want %v", got, c.want)
			}
		})
	}
}
