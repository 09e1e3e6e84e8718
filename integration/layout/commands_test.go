package layout

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/internal/cli/clitest"
)

// notRun marks blocks whose commands are parsed but not run.
const notRun = "TestCommandsInDocsAreValid"

// Names of tests that run shell blocks on several pages.
const (
	operators   = "TestOperatorGuidesWork"
	takenOver   = "TestLifecycleManagerLandscapeIsTakenOverInSteps"
	charts      = "TestGuidesOnInstallingAndUninstallingWork"
	triedBroken = "TestTrialStopsIfCanaryNeverBecomesReady"
	release     = "TestReleaseIsReproducibleAndVerifiedByStockTools"
	export      = "TestExportContainsImagesFoundByRendering"
	commit      = "TestControlPlaneAndRuntimesFollowACommit"
	tokens      = "TestDistributionRegistryWithTokenServiceIsolatesRuntimes"
	rights      = "TestModulesHaveOnlyTheirAccountsRights"
	uiPage      = "TestOperatorApprovesAWaveInTheUI"
	definitions = "TestUpgradeGuideUpgradesAndRollsBackCRDs"
	converted   = "TestV1beta1KymaReceivesABundle"
	tutorials   = "TestTutorialCommandsWork"
	trains      = "TestTrainPromotesByCommits"
)

// runBy maps each page to the names of the tests that run its shell blocks. It lists one test for each block in order,
// or a single test for all blocks.
var runBy = map[string][]string{
	// CI runs make demo and make test in separate steps.
	"README.md":                                     {notRun, "TestReadmeCommandsWork"},
	"charts/kcp-publisher/README.md":                {charts},
	"charts/kcp-publisher/templates/NOTES.txt":      {charts},
	"charts/skr-agent/README.md":                    {charts},
	"charts/skr-agent/templates/NOTES.txt":          {charts},
	"docs/guides/checks.md":                         {"TestOperatorRunsChecksInOneRuntime"},
	"docs/guides/airgap.md":                         {export, operators, operators, "TestStockToolsMirrorAFleet"},
	"docs/guides/git.md":                            {commit, operators, commit, commit},
	"docs/guides/chaos.md":                          {notRun}, // make targets that run for minutes or hours
	"docs/guides/disaster-recovery.md":              {"TestDisasterRecoveryGuideWorks"},
	"docs/guides/key-ceremonies.md":                 {"TestKeyCeremonyGuideWorks"},
	"docs/guides/migrate-from-lifecycle-manager.md": {takenOver, charts, takenOver, takenOver, takenOver, takenOver},
	"docs/guides/monitoring.md":                     {charts},
	"docs/guides/operate-a-fleet.md":                {operators},
	"docs/guides/registry-configurations.md":        {tokens},
	"docs/guides/troubleshooting.md": {
		operators, "TestCheckCommandsReportProblemsBeforeProgramsRun", operators,
	},
	"docs/guides/ui-in-cluster.md": {charts},
	"docs/guides/ui.md":            {uiPage},
	"docs/guides/uninstall.md":     {charts},
	"docs/guides/upgrade-and-skew.md": {
		charts, "TestReleasedAgentMovesToTheRestrictedRole", charts, definitions, definitions, definitions, definitions,
		converted, converted,
	},
	"docs/guides/verify-a-release.md": {release},
	// The tests on kind run make images.
	"docs/guides/install.md":                 {notRun, charts, charts, charts, charts, charts, charts},
	"docs/guides/removals.md":                {"TestLargeRemovalsWaitForApproval"},
	"docs/guides/repair.md":                  {charts},
	"docs/guides/kind.md":                    {notRun}, // commands that run the tests on kind
	"docs/guides/maintenance.md":             {operators},
	"docs/guides/values.md":                  {"TestRuntimesWithDifferentValuesShareOneDocument"},
	"docs/guides/failure-details.md":         {"TestOperatorPromotesWithoutGitAndReadsFailureCause"},
	"docs/guides/modules.md":                 {operators},
	"docs/guides/notifications.md":           {charts},
	"docs/guides/promotion-trains.md":        {trains},
	"docs/guides/provenance.md":              {"TestProvenanceGuideCommandsWork"},
	"docs/reference/kubectl.md":              {operators},
	"docs/reference/performance-flux.md":     {notRun}, // benchmarks, which need their own machine
	"docs/reference/performance.md":          {notRun}, // benchmarks, which need their own machine
	"docs/guides/registry.md":                {tokens, operators, tokens},
	"docs/guides/ownership.md":               {charts},
	"docs/guides/rights.md":                  {charts, charts, charts, rights, charts},
	"docs/guides/rollouts.md":                {operators},
	"docs/runbooks/stolen-keys.md":           {"TestRunbookForStolenKeysWorks"},
	"docs/runbooks/wrong-clocks.md":          {operators},
	"docs/tutorials/catch-a-slow-release.md": {"TestSlowReleaseIsRolledBackByItsCheck"},
	"docs/tutorials/first-air-gap.md":        {tutorials},
	"docs/tutorials/first-clusters.md":       {"TestFirstClustersTutorialWorks"},
	"docs/tutorials/first-fleet.md":          {tutorials},
	"docs/tutorials/first-module.md":         {tutorials},
	"docs/tutorials/first-rollout.md":        {operators},
	// The first block and the block with KIND=1 are complete trials. TestSampleModulePassesTrial and
	// TestSampleModulePassesTrialWithPods run the same package.
	"docs/tutorials/try-a-module.md": {
		notRun, triedBroken, triedBroken, "TestKedaModulePassesTrial", notRun, "TestModuleTeamRunsTrialFromItsOwnGoModule",
	},
}

func TestDocumentedCommandsRunInTests(t *testing.T) {
	tests := readTests(t)
	blocks := map[string][]clitest.Block{}
	for _, b := range clitest.Shell(t, root(t)) {
		blocks[b.Page] = append(blocks[b.Page], b)
	}
	for page, names := range runBy {
		if len(names) != 1 && len(names) != len(blocks[page]) {
			t.Errorf("%s has %d shell blocks, but runBy has tests for %d", page, len(blocks[page]), len(names))
		}
	}
	for page, all := range blocks {
		for i, b := range all {
			names := runBy[page]
			switch {
			case len(names) == 1:
				checkClaim(t, b, names[0], tests)
			case i < len(names):
				checkClaim(t, b, names[i], tests)
			default:
				t.Errorf("%s:%d: no test runs this block: add a test to runBy\n%s", page, b.Line, b.Script)
			}
		}
	}
}

// checkClaim fails unless the test with this name exists and refers to the block's page.
func checkClaim(t *testing.T, b clitest.Block, name string, tests map[string]reader) {
	t.Helper()
	test, ok := tests[name]
	if !ok {
		t.Errorf("%s:%d: test %s does not exist", b.Page, b.Line, name)
		return
	}
	if name != notRun {
		if !test.names(pageName(b.Page)) {
			t.Errorf("%s:%d: test %s and the functions it calls do not read %s", b.Page, b.Line, name,
				pageName(b.Page))
		}
		return
	}
	for _, words := range b.Calls(t) {
		switch strings.TrimPrefix(words[0], "bin/") {
		case "kcp-publisher", "skr-agent", "make":
		default:
			t.Errorf("%s:%d: %s does not check %s: %s", b.Page, b.Line, name, words[0], strings.Join(words, " "))
		}
	}
}

// make -n fails for an unknown target.
func TestDocumentedMakeTargetsExist(t *testing.T) {
	checked := map[string]bool{}
	for _, b := range clitest.Shell(t, root(t)) {
		for _, words := range b.Calls(t) {
			if line := strings.Join(words, " "); words[0] == "make" && !checked[line] {
				checked[line] = true
				if len(words) > 1 && !slices.Contains(makeTargets(t), words[1]) {
					t.Errorf("%s:%d: %s: target not found in the Makefile", b.Page, b.Line, line)
				}
				command := exec.CommandContext(t.Context(), "make", append([]string{"--dry-run"}, words[1:]...)...)
				command.Dir = root(t)
				if output, err := command.CombinedOutput(); err != nil {
					t.Errorf("%s:%d: %s: %v\n%s", b.Page, b.Line, line, err, output)
				}
			}
		}
	}
	if len(checked) < 10 {
		t.Errorf("found only %d calls of make on the pages", len(checked))
	}
}
