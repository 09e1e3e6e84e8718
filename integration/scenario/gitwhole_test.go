package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// limitKymas limits the number of Kymas in the control plane with a ResourceQuota.
func limitKymas(t *testing.T, f *fleet.Fleet, most, used string) {
	t.Helper()
	const counted = corev1.ResourceName("count/kymas." + v1beta2.Group)
	must(t, fleet.SetQuota(t.Context(), f.Control, metav1.ObjectMeta{Namespace: sample.Namespace, Name: "kymas"},
		corev1.ResourceList{counted: resource.MustParse(most)}, corev1.ResourceList{counted: resource.MustParse(used)}))
}

// untilPartial waits until the publisher reports that a commit is partially applied.
func untilPartial(t *testing.T, f *fleet.Fleet, hash string) {
	t.Helper()
	until(t, time.Minute, "commit "+hash+" is partially applied", func() (bool, string) {
		r := record(t, f)
		return r["applying"] == hash && r["ready"] == "False" && r["reason"] == v1beta2.ReasonCommitApplyFailed &&
			strings.Contains(r["message"], "publishing is held until commit "+hash) &&
			strings.Contains(r["message"], "fleet/kymas/") && strings.Contains(r["message"], ".yaml:1: ") &&
			strings.Contains(r["message"], "exceeded quota"), fmt.Sprint(r)
	})
}

// Because of a quota, the API server accepts the commit's dry run, but then rejects some of its objects.
func TestCommitIsPublishedCompletelyOrNotAtAll(t *testing.T) {
	suite.Long(t) // the short suite runs TestPublishingStopsOnlyDuringPartialCommits
	ctx, repo := t.Context(), newRepository(t)
	files := catalogOf(t)
	files["fleet/kymas/one.yaml"] = kymaOf("one", "scaler")
	first := repo.push(files)
	f := startFollowing(t, repo.flags())
	untilCommit(t, f, first)
	r, err := f.AddRuntime(ctx, "one", "regular")
	must(t, err)
	must(t, r.UntilState(ctx, "scaler", "1.7.0", v1beta2.StateReady))
	untilQuiet(t, f)
	must(t, f.Publisher().Stop())
	// The new leader has the same flags as the previous one. Otherwise, the new leader would change bundles.
	flags := append(repo.flags(), "--set", "git-poll-interval=500ms", "--agent-poll-interval", "300ms",
		"--agent-report-interval", "2s")
	leader := startCandidate(t, f, "leader", flags...)
	leader.untilLogged(t, "catalog changed") // the leader is ready after this log line
	successor := startCandidate(t, f, "successor", flags...)
	desired, err := r.Desired(ctx)
	must(t, err)

	byHand := &v1beta2.Kyma{
		ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: "by-hand"},
		Spec:       v1beta2.KymaSpec{Channel: "regular"},
	}
	must(t, f.Control.Create(ctx, byHand))
	until(t, time.Minute, "the Kyma outside of Git has a bundle", func() (bool, string) {
		err := f.Control.Get(ctx, client.ObjectKeyFromObject(byHand), byHand)
		return err == nil && byHand.Status.Runtime != nil && byHand.Status.Runtime.Published != nil,
			fmt.Sprint(err, byHand.Status)
	})
	limitKymas(t, f, "2", "1")
	promoted := repo.push(map[string]string{
		"fleet/releases/scaler.yaml": strings.Replace(files["fleet/releases/scaler.yaml"], "regular, version: 1.7.0",
			"regular, version: 1.8.0", 1),
		"fleet/kymas/two.yaml": kymaOf("two", "mailer"), "fleet/kymas/three.yaml": kymaOf("three", "mailer"),
		"fleet/kymas/four.yaml": kymaOf("four", "mailer"),
	})
	nothingIsPublished := func() {
		t.Helper()
		meta := &v1beta2.ModuleReleaseMeta{}
		must(t, f.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: "scaler"}, meta))
		if meta.Spec.Channels[0].Version != "1.8.0" {
			t.Errorf("the control plane has no part of the commit: %v", meta.Spec.Channels)
		}
		if now, err := r.Desired(ctx); err != nil || now.Descriptor.Digest != desired.Descriptor.Digest {
			t.Errorf("a bundle was published for a partially applied commit: %v", err)
		}
	}

	t.Run("partial commit reaches no runtime and reports are recorded", func(t *testing.T) {
		untilPartial(t, f, promoted)
		must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
			spec.Modules = append(spec.Modules, v1beta2.Module{Name: "mailer", Managed: true})
		}))
		until(t, time.Minute, "the control plane records the runtime's request", func() (bool, string) {
			kyma, err := r.Record(ctx)
			if err != nil || kyma.Status.Runtime == nil || kyma.Status.Runtime.Requested == nil {
				return false, fmt.Sprint(err)
			}
			return len(kyma.Status.Runtime.Requested.Spec.Modules) == 2, fmt.Sprint(kyma.Status.Runtime.Requested)
		})
		if why, err := f.Why(ctx, "one"); err != nil ||
			!strings.Contains(why, "cause      publishing is held until commit "+promoted) {
			t.Errorf("unexpected output of why: error %v\n%s", err, why)
		}
		nothingIsPublished()
	})
	t.Run("Kyma deleted during a partial commit is removed", func(t *testing.T) {
		must(t, f.Control.Delete(ctx, byHand))
		until(t, time.Minute, "the deleted Kyma is removed", func() (bool, string) {
			err := f.Control.Get(ctx, client.ObjectKeyFromObject(byHand), byHand)
			return apierrors.IsNotFound(err), fmt.Sprint(err)
		})
		nothingIsPublished()
	})
	t.Run("new leader publishes no partial commit", func(t *testing.T) {
		leader.kill(t)
		successor.untilLogged(t, "failed to follow the repository")
		successor.untilLogged(t, promoted)
		untilPartial(t, f, promoted)
		nothingIsPublished()
	})
	t.Run("revert of the partial commit is published", func(t *testing.T) {
		repo.git("reset", "--quiet", "--hard", first)
		repo.git("push", "--quiet", "--force", "origin", "main")
		untilCommit(t, f, first)
		must(t, r.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))
		kyma, err := r.Record(ctx)
		must(t, err)
		if v := kyma.Status.Runtime.Published.Versions; v["scaler"] != "1.7.0" ||
			moduleOf(kyma, "scaler").Message != "" {
			t.Errorf("unexpected published versions %v; module %v", v, moduleOf(kyma, "scaler"))
		}
		if got := bundleSource(t, f, "one"); got != first {
			t.Errorf("the bundle names commit %s, want %s", got, first)
		}
	})
	t.Run("partial commit completes after the quota is removed", func(t *testing.T) {
		desired, err = r.Desired(ctx)
		must(t, err)
		limitKymas(t, f, "2", "1")
		repo.git("reset", "--quiet", "--hard", promoted)
		repo.git("push", "--quiet", "--force", "origin", "main")
		untilPartial(t, f, promoted)
		nothingIsPublished()
		limitKymas(t, f, "10", "2")
		untilCommit(t, f, promoted)
		must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
		if got := bundleSource(t, f, "one"); got != promoted {
			t.Errorf("the bundle names commit %s, want %s", got, promoted)
		}
	})
}

// untilNotFollowed waits until the publisher's record and an Event contain the reason why the repository cannot be
// followed, and checks that no object changed.
func untilNotFollowed(t *testing.T, f *fleet.Fleet, before map[string]string, reason, message string) {
	t.Helper()
	until(t, time.Minute, "the repository is not followed: "+reason, func() (bool, string) {
		r := record(t, f)
		return r["reason"] == reason, fmt.Sprint(r)
	})
	untilCommitRefused(t, f, before, message)
	untilEvent(t, f, "kyma-pull-git", reason, "")
}

// A user changes and deletes objects that are managed by Git, and pushes commits with mistakes.
func TestGitRevertsManualChangesAndConfirmsPruning(t *testing.T) {
	suite.Long(t) // the short suite runs TestEditsFromOtherClientsAreDetected and TestLargePruneWaitsForPermission
	ctx, repo := t.Context(), newRepository(t)
	files := catalogOf(t)
	files["fleet/kymas/one.yaml"] = kymaOf("one", "scaler")
	files["fleet/kymas/two.yaml"] = kymaOf("two", "scaler", "mailer")
	first := repo.push(files)
	f := startFollowing(t, repo.flags())
	untilCommit(t, f, first)
	r, err := f.AddRuntime(ctx, "one", "regular")
	must(t, err)
	must(t, r.UntilState(ctx, "scaler", "1.7.0", v1beta2.StateReady))
	modulesOf := func(name string) string {
		kyma := &v1beta2.Kyma{}
		must(t, f.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: name}, kyma))
		return namesOf(kyma.Spec.Modules)
	}

	t.Run("existing objects are adopted", func(t *testing.T) {
		must(t, f.Control.Create(ctx, fleet.NewKyma("adopted", "regular", "scaler", "mailer")))
		untilCommit(t, f, repo.push(map[string]string{"fleet/kymas/adopted.yaml": kymaOf("adopted", "mailer")}))
		if got := modulesOf("adopted"); got != "mailer" {
			t.Errorf("the adopted Kyma has modules %s", got)
		}
	})
	t.Run("manual changes except labels are reverted", func(t *testing.T) {
		kyma, err := r.Record(ctx)
		must(t, err)
		before := kyma.DeepCopy()
		kyma.Spec.Modules = append(kyma.Spec.Modules, managed("mailer"))
		kyma.Spec.SkipMaintenanceWindows = true
		kyma.Labels["by-hand"] = "yes"
		must(t, f.Control.Patch(ctx, kyma, client.MergeFrom(before)))
		meta := &v1beta2.ModuleReleaseMeta{}
		must(t, f.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: "scaler"}, meta))
		earlier := meta.DeepCopy()
		meta.Spec.Channels = append(meta.Spec.Channels, sample.Channel("experimental", "1.8.0"))
		must(t, f.Control.Patch(ctx, meta, client.MergeFrom(earlier)))
		reordered := &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: "two"}}
		change(t, f.Control, reordered, func(two *v1beta2.Kyma) { slices.Reverse(two.Spec.Modules) })
		until(t, time.Minute, "the control plane's objects match Git", func() (bool, string) {
			kyma, err := r.Record(ctx)
			must(t, err)
			must(t, f.Control.Get(ctx, client.ObjectKeyFromObject(meta), meta))
			return namesOf(kyma.Spec.Modules) == "scaler" && !kyma.Spec.SkipMaintenanceWindows &&
					kyma.Labels["by-hand"] == "yes" && len(meta.Spec.Channels) == 2 &&
					modulesOf("two") == "scaler mailer",
				fmt.Sprint(kyma.Spec, kyma.Labels, meta.Spec.Channels, modulesOf("two"))
		})
		untilCommit(t, f, repo.git("rev-parse", "HEAD"))
	})
	t.Run("deleted object is recreated", func(t *testing.T) {
		two := &v1beta2.Kyma{}
		must(t, f.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: "two"}, two))
		deleted := two.UID
		must(t, f.Control.Delete(ctx, two))
		until(t, time.Minute, "Kyma two exists again", func() (bool, string) {
			err := f.Control.Get(ctx, client.ObjectKeyFromObject(two), two)
			return err == nil && two.UID != deleted, fmt.Sprint(err, two.DeletionTimestamp)
		})
		untilCommit(t, f, repo.git("rev-parse", "HEAD"))
	})
	t.Run("wrong password is reported as an authentication problem", func(t *testing.T) {
		before := versions(t, f)
		password := filepath.Join(repo.credentials, "password")
		must(t, os.WriteFile(password, []byte("wrong\n"), 0o600))
		untilNotFollowed(t, f, before, v1beta2.ReasonAuthenticationFailed, "authentication required")
		must(t, os.WriteFile(password, []byte("hunter2\n"), 0o600))
		untilCommit(t, f, repo.git("rev-parse", "HEAD"))
	})
	t.Run("symbolic link instead of a folder does not remove objects", func(t *testing.T) {
		before := versions(t, f)
		repo.git("mv", "fleet/kymas", "kymas")
		must(t, os.Symlink("../kymas", filepath.Join(repo.dir, "fleet", "kymas")))
		repo.push(nil)
		untilNotFollowed(t, f, before, v1beta2.ReasonCommitRefused, "kymas is a symbolic link, which is not followed")
		repo.git("rm", "--quiet", "fleet/kymas")
		repo.git("mv", "kymas", "fleet/kymas")
		untilCommit(t, f, repo.push(nil))
	})
	t.Run("Kyma with a runtime needs confirmation and a protected Kyma stays", func(t *testing.T) {
		adopted := &v1beta2.Kyma{}
		must(t, f.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: "adopted"}, adopted))
		earlier := adopted.DeepCopy()
		adopted.Annotations[v1beta2.AnnotationPrune] = v1beta2.PruneDisabled
		must(t, f.Control.Patch(ctx, adopted, client.MergeFrom(earlier)))
		untilCommit(t, f, repo.git("rev-parse", "HEAD"))
		before := versions(t, f)
		removeModule := repo.push(map[string]string{"fleet/kymas/one.yaml": "", "fleet/kymas/adopted.yaml": ""})
		command := fmt.Sprintf("kubectl annotate configmap -n %s kyma-pull-git --overwrite %s=%s", sample.Namespace,
			v1beta2.AnnotationAllowPrune, removeModule)
		untilNotFollowed(t, f, before, v1beta2.ReasonPruneNotAllowed,
			"1 Kymas with a live runtime, which would be emptied: Kyma one: no part of the commit is applied; to "+
				"allow this commit: "+command)
		if output, err := f.Ask(ctx, "diff", "--from", filepath.Join(repo.dir, "fleet")); err != nil ||
			!strings.Contains(output, "held    until an operator allows the commit, because it would prune 1 Kymas") {
			t.Errorf("unexpected output of diff: error %v\n%s", err, output)
		}
		config := &corev1.ConfigMap{}
		must(t, f.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: "kyma-pull-git"}, config))
		was := config.DeepCopy()
		config.Annotations = map[string]string{v1beta2.AnnotationAllowPrune: removeModule}
		must(t, f.Control.Patch(ctx, config, client.MergeFrom(was)))
		untilCommit(t, f, removeModule)
		until(t, time.Minute, "Kyma one is deleted and its runtime is empty", func() (bool, string) {
			_, err := r.Record(ctx)
			_, there := settings(ctx, r)
			return apierrors.IsNotFound(err) && apierrors.IsNotFound(there), fmt.Sprint(err, there)
		})
		if got := record(t, f)["message"]; modulesOf("adopted") != "mailer" ||
			!strings.Contains(got, "protected by the annotation "+v1beta2.AnnotationPrune+": Kyma adopted") {
			t.Errorf("the repository's record reports %s", got)
		}
	})
	t.Run("publisher uses only permissions from its chart", func(t *testing.T) {
		rights, err := f.PublisherRights()
		must(t, err)
		lacksNothing(t, "publisher", rights)
	})
}

func namesOf(modules []v1beta2.Module) string {
	var names []string
	for _, m := range modules {
		names = append(names, m.Name)
	}
	return strings.Join(names, " ")
}
