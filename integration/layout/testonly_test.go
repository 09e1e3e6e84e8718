package layout

import (
	"strings"
	"testing"
)

// testOnly are modules of go.mod that only tests and tools use. They stay in the same go.mod as the programs;
// docs/adr/0053-one-module-for-programs-and-tests.md has the reasons.
var testOnly = []string{
	"github.com/chromedp/", "github.com/distribution/distribution/", "github.com/stretchr/testify",
	"pgregory.net/rapid", "sigs.k8s.io/kind",
}

func TestTheProgramsLinkNoModuleOfTests(t *testing.T) {
	for _, program := range []string{"./kcp-publisher", "./skr-agent"} {
		linked := 0
		for dependency := range strings.Lines(string(goList(t, "-deps", program))) {
			linked++
			for _, prefix := range testOnly {
				if strings.HasPrefix(dependency, prefix) {
					t.Errorf("%s links %s", program, strings.TrimSpace(dependency))
				}
			}
		}
		if linked < 500 {
			t.Errorf("%s links %d packages: go list shows no dependencies", program, linked)
		}
	}
}

// A module that no test uses any more belongs neither in the list nor in go.mod.
func TestModulesOfTestsAreInGoMod(t *testing.T) {
	modules := readFile(t, "go.mod")
	for _, prefix := range testOnly {
		if !strings.Contains(modules, "\t"+prefix) {
			t.Errorf("go.mod has no module %s", prefix)
		}
	}
}
