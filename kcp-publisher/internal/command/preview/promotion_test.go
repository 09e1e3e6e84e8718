package preview

import (
	"strings"
	"testing"
)

func TestPromotionOfAModuleWithoutVersionsNamesTheFields(t *testing.T) {
	for known, want := range map[string]string{
		"":     "module keda: no ModuleReleaseMeta found: create one with spec.moduleName keda",
		"keds": "module keda: no ModuleReleaseMeta found: did you mean keds?",
	} {
		if got := NoReleaseMeta("keda", strings.Fields(known)).Error(); !strings.HasPrefix(got, want) {
			t.Errorf("known modules %q: got %q, want %q", known, got, want)
		}
	}
}
