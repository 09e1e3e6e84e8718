package scenario

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// A version fails in the canary while the version before it still soaks in all runtimes. An operator reverts the
// promotion with `git revert` and does nothing else. No runtime may return to a version older than the soaking one.
func TestGitRevertUndoesAFailedPromotion(t *testing.T) {
	suite.Long(t) // the short suite runs TestFailedCanaryReturnsToTheSoakingVersion
	ctx, repo := t.Context(), newRepository(t)
	const releases = "fleet/releases/scaler.yaml"
	files := catalogOf(t)
	files["fleet/modules/scaler-1.9.0.yaml"] = document(t, sample.Scaler("1.9.0").Template())
	first := repo.push(files)
	f := startFollowing(t, repo.flags())
	must(t, sample.Scaler("1.9.0").Push(ctx, f.Modules))
	untilCommit(t, f, first)
	canaries, others := simulate(t, f, 1, 2)
	must(t, f.CreatePolicy(ctx, "scaler", stages(func(_, others *v1alpha1.Wave) {
		others.Soak = metav1.Duration{Duration: time.Hour}
	})))
	promoted := func(version string) string {
		files[releases] = strings.Replace(catalogOf(t)[releases], "regular, version: 1.7.0", "regular, version: "+version, 1)
		return files[releases]
	}
	untilCommit(t, f, repo.push(map[string]string{releases: promoted("1.8.0")}))
	must(t, f.UntilRollout(ctx, firstRollout, "the last wave soaks", func(s v1alpha1.RolloutStatus) bool {
		return s.State == v1alpha1.RolloutProgressing && s.Updated == 3 && s.Waves[1].ReadyAt != nil
	}))
	canaries[0].BreakWith("1.9.0")
	failed := repo.push(map[string]string{releases: promoted("1.9.0")})
	must(t, f.UntilRollout(ctx, secondRollout, "the rollout is rolled back", rolledOut(v1alpha1.RolloutRolledBack)))

	repo.git("revert", "--no-edit", failed)
	repo.git("push", "--quiet", "origin", "main")
	untilCommit(t, f, repo.git("rev-parse", "HEAD"))
	untilQuiet(t, f)
	untilSettled(t, canaries[0], "1.8.0")
	wantHistory(t, canaries[0], "1.7.0", "1.8.0", "1.9.0", "1.8.0")
	for _, s := range others {
		wantHistory(t, s, "1.7.0", "1.8.0")
	}
	if r, err := f.Rollout(ctx, "scaler-regular-3"); err == nil {
		t.Errorf("the revert created a rollout from %s to %s", r.Spec.From, r.Spec.To)
	}
}
