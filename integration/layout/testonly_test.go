package layout

import (
	"strings"
	"testing"
)

// testOnly lists modules in go.mod that only tests and tools use. See
// docs/adr/0053-one-module-for-programs-and-tests.md.
var testOnly = []string{
	"github.com/chromedp/", "github.com/distribution/distribution/", "github.com/stretchr/testify",
	"pgregory.net/rapid", "sigs.k8s.io/kind",
}

func TestProgramsDoNotLinkTestModules(t *testing.T) {
	for _, program := range []string{"kcp-publisher", "skr-agent"} {
		dependencies := linked(t, program)
		for dependency := range dependencies {
			for _, prefix := range testOnly {
				if strings.HasPrefix(dependency, prefix) {
					t.Errorf("%s links %s", program, dependency)
				}
			}
		}
		if len(dependencies) < 500 {
			t.Errorf("go list returned only %[2]d packages for %[1]s", program, len(dependencies))
		}
	}
}

func TestTestModulesAreInGoMod(t *testing.T) {
	modules := readFile(t, "go.mod")
	for _, prefix := range testOnly {
		if !strings.Contains(modules, "\t"+prefix) {
			t.Errorf("go.mod has no module %s", prefix)
		}
	}
}
