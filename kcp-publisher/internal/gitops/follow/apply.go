package follow

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/git"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/source"
)

// maxPasses is how often a commit is applied until KCP has what it has: what others own is found in a first pass, or in
// a second where the API server had lost who owns what.
const maxPasses = 3

// apply makes KCP have what a commit has. Only when nothing differs any more is the commit said to be there.
func (f *Follower) apply(ctx context.Context, repository *git.Repository, commit *git.Commit, objects source.Objects) error {
	known, changed, pruned := f.current.Load(), 0, 0
	for pass := 0; ; pass++ {
		s, err := f.Survey(ctx, commit.Hash, objects)
		if err != nil {
			return err
		}
		f.noteRecord(s.record)
		if s.Plan.Held != nil {
			return f.permission(s.Plan.Held)
		}
		f.noteAllowed(s)
		if s.Plan.Changes()+len(s.Plan.Disown) > 0 && pass < maxPasses {
			if err := f.step(ctx, repository, commit, s); err != nil {
				return err
			}
			changed, pruned = changed+len(s.Plan.Apply), pruned+len(s.Plan.Prune)
			continue
		}
		if s.Plan.isHalf() && f.holds(s.record, repository, commit) {
			return overwritten(s.Plan)
		}
		if err := f.untilSeen(ctx, s); err != nil {
			return err
		}
		f.current.Store(&bundle.Source{Repository: repository.URL, Commit: commit.Hash})
		if err := f.finish(ctx, repository, commit, s); err != nil {
			return err
		}
		if changed+pruned > 0 || known == nil || known.Commit != commit.Hash {
			ctrl.LoggerFrom(ctx).Info("applied commit", "commit", commit.Hash, "author", commit.Author, "objects", len(s.Plan.Inventory),
				"changed", changed, "pruned", pruned, "protected", len(s.Plan.Protected), "ignored", append(s.Left, commit.Ignored...))
		}
		if !s.Plan.equal() {
			return overwritten(s.Plan)
		}
		return nil
	}
}

// permission is the error of a commit that waits for a person.
func (f *Follower) permission(held *PruneError) error {
	const message = "%w: nothing of the commit is applied; to allow this commit: kubectl annotate configmap -n %s %s --overwrite %s=%s" +
		", or: kcp-publisher removals approve %s"
	return &failure{v1beta2.ReasonPruneNotAllowed, fmt.Errorf(message, held, f.Namespace, RecordName, v1beta2.AnnotationAllowPrune, held.Commit, held.Commit)}
}

// overwritten is the error of a commit that was applied, and still is not what KCP has.
func overwritten(plan Plan) error {
	if plan.Changes() == 0 {
		const message = "it was applied, and somebody deletes %s: what is in Git is made again once it is gone; remove it there if it shall not be"
		return &failure{v1beta2.ReasonCommitOverwritten, fmt.Errorf(message, named(plan.Deleting))}
	}
	keys := slices.Clone(plan.Prune)
	for _, w := range plan.Apply {
		keys = append(keys, KeyOf(&w.Object))
	}
	const message = "it was applied, and somebody changes its objects again: %s: let the repository alone write their spec"
	return &failure{v1beta2.ReasonCommitOverwritten, fmt.Errorf(message, named(keys))}
}

// finish notes that all of a commit is applied, after which bundles are made of it.
func (f *Follower) finish(ctx context.Context, repository *git.Repository, commit *git.Commit, s Survey) error {
	text, err := encodeInventory(s.Plan.Inventory)
	if err != nil {
		return err
	}
	state := map[string]string{
		fieldReady: string(metav1.ConditionTrue), fieldReason: v1beta2.ReasonCommitApplied,
		fieldMessage: fmt.Sprintf("%d objects are applied", len(s.Plan.Inventory)-len(s.Plan.Protected)),
	}
	if len(s.Plan.Protected) > 0 {
		state[fieldMessage] += fmt.Sprintf("; not in it and protected by the annotation %s: %s", v1beta2.AnnotationPrune, named(s.Plan.Protected))
	}
	if !s.Plan.equal() {
		state = map[string]string{fieldReady: string(metav1.ConditionFalse)} // why is told as a failure
	}
	fields := map[string]string{
		fieldRepository: repository.URL, fieldRevision: repository.Revision(), fieldPath: repository.Path,
		fieldCommit: commit.Hash, fieldAuthor: commit.Author, fieldTime: commit.Time.UTC().Format(time.RFC3339), fieldSignedBy: commit.SignedBy,
		fieldInventory: text, fieldAdded: "", fieldApplying: "", fieldHeld: "", fieldWaiting: "",
	}
	for name, value := range state {
		fields[name] = value
	}
	if err := f.write(ctx, s.record, fields); err != nil {
		return err
	}
	f.last = appliedCommit{repository.URL, repository.Revision(), commit.Hash}
	applied.Reset()
	applied.WithLabelValues(commit.Hash).Set(1)
	f.isPartial("")
	return nil
}

// step changes the control plane. Of a commit that was not yet applied as a whole, nothing is published from its
// beginning until one is, by this process or another.
func (f *Follower) step(ctx context.Context, repository *git.Repository, commit *git.Commit, s Survey) error {
	// Nothing is changed before the API has taken all of it in a dry run.
	if err := f.applyAll(ctx, s.Plan.Apply, nil, client.DryRunAll); err != nil {
		return &failure{refusedOr(f.partial), err}
	}
	// What may come into being is written down first, so that it is found again whatever happens meanwhile.
	fields, err := begun(s)
	if err != nil {
		return &failure{v1beta2.ReasonCommitRefused, err}
	}
	if f.holds(s.record, repository, commit) {
		fields[fieldApplying] = commit.Hash
		f.isPartial(commit.Hash)
	}
	if err := f.write(ctx, s.record, fields); err != nil {
		return err
	}
	f.current.Store(&bundle.Source{Repository: repository.URL, Commit: commit.Hash})
	if err := f.applyAll(ctx, s.Plan.Apply, s.Live); err != nil {
		return err
	}
	changes.WithLabelValues("apply").Add(float64(len(s.Plan.Apply)))
	if err := f.prune(ctx, s.Plan.Prune, s.Live); err != nil {
		return err
	}
	changes.WithLabelValues("prune").Add(float64(len(s.Plan.Prune)))
	return f.disown(ctx, s.Plan.Disown, s.Live)
}

// holds reports whether nothing is published while a commit is applied. To set back what somebody edited after it was
// applied as a whole is no step between two commits: whoever may edit one Kyma must not be able to hold all others.
func (f *Follower) holds(r *record, repository *git.Repository, commit *git.Commit) bool {
	return f.partial != "" || !r.isWhole(repository, commit.Hash)
}

// refusedOr is the reason of a commit that the API refuses in a dry run. While one is applied in part, that is what
// matters.
func refusedOr(partial string) string {
	if partial != "" {
		return v1beta2.ReasonCommitApplyFailed
	}
	return v1beta2.ReasonCommitRefused
}

// begun is what the record says of objects while a commit is applied.
func begun(s Survey) (map[string]string, error) {
	known := map[Key]bool{}
	for _, key := range s.before.Keys {
		known[key] = true
	}
	added := slices.Clone(s.before.Added)
	inventory := slices.Clone(s.before.Keys)
	for _, key := range s.Plan.Inventory {
		// What others made is the repository's only once a commit that has it is applied as a whole: taking it back must not
		// delete it.
		if !known[key] && s.Live[key] == nil {
			added, inventory = append(added, key), append(inventory, key)
		}
	}
	all, err := encodeInventory(inventory)
	if err != nil {
		return nil, err
	}
	text, err := encodeInventory(added)
	if err != nil || len(all)+len(text) > maxInventoryBytes {
		text = "" // taking the commit back may need permission then
	}
	return map[string]string{fieldInventory: all, fieldAdded: text}, nil
}
