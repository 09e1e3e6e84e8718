package preview

import (
	"strings"
	"testing"
)

func TestErrorForAModuleWithoutReleaseMetaNamesTheFields(t *testing.T) {
	for known, want := range map[string]string{
		"":     "module keda: no ModuleReleaseMeta found: create one with spec.moduleName keda",
		"keds": "module keda: no ModuleReleaseMeta found: did you mean keds?",
	} {
		if got := NoReleaseMeta("keda", strings.Fields(known)).Error(); !strings.HasPrefix(got, want) {
			t.Errorf("known modules %q: got %q, want %q", known, got, want)
		}
	}
}

func TestErrorForAModuleArgumentWithVersionNamesTheModule(t *testing.T) {
	const want = "module keda@1.9.0: no ModuleReleaseMeta found: name the module without a version: keda"
	if got := NoReleaseMeta("keda@1.9.0", []string{"keda"}).Error(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
