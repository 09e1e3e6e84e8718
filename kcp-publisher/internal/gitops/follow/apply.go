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

// maxPasses is the maximum number of times that one poll applies the same commit. A second pass is necessary for an
// object that lost its managed fields.
const maxPasses = 3

// apply applies a commit until the control plane matches it, and then records the commit as applied.
func (f *Follower) apply(
	ctx context.Context, repository *git.Repository, commit *git.Commit, objects source.Objects,
) error {
	known, changed, pruned := f.current.Load(), 0, 0
	for pass := 0; ; pass++ {
		s, err := f.Survey(ctx, commit.Hash, objects)
		if err != nil {
			return err
		}
		f.holdIfPartial(s.record)
		if s.Plan.Held != nil {
			return f.permission(s.Plan.Held)
		}
		f.recordApproved(commit.Hash, s)
		if s.Plan.Changes()+len(s.Plan.Disown) > 0 && pass < maxPasses {
			if err := f.step(ctx, repository, commit, s); err != nil {
				return err
			}
			changed, pruned = changed+len(s.Plan.Apply), pruned+len(s.Plan.Prune)
			continue
		}
		if s.Plan.sharedObjectsDiffer() && f.mustHold(s.record, repository, commit) {
			return newOverwrittenError(s.Plan)
		}
		if err := f.untilSeen(ctx, s); err != nil {
			return err
		}
		f.current.Store(&bundle.Source{Repository: repository.URL, Commit: commit.Hash})
		if err := f.finish(ctx, repository, commit, s); err != nil {
			return err
		}
		if changed+pruned > 0 || known == nil || known.Commit != commit.Hash {
			ctrl.LoggerFrom(ctx).Info("applied commit", "commit", commit.Hash, "author", commit.Author, "objects",
				len(s.Plan.Inventory),
				"changed", changed, "pruned", pruned, "protected", len(s.Plan.Protected), "ignored",
				append(s.Left, commit.Ignored...))
		}
		if !s.Plan.isEmpty() {
			return newOverwrittenError(s.Plan)
		}
		return nil
	}
}

func (f *Follower) permission(held *PruneError) error {
	const message = "%w: no part of the commit is applied; to allow this commit: kubectl annotate configmap -n %s %s " +
		"--overwrite %s=%s" +
		", or: kcp-publisher removals approve %s"
	return &failure{
		v1beta2.ReasonPruneNotAllowed,
		fmt.Errorf(message, held, f.Namespace, RecordName, v1beta2.AnnotationAllowPrune, held.Commit, held.Commit),
	}
}

// newOverwrittenError returns the error for an applied commit that the control plane still does not match.
func newOverwrittenError(plan Plan) error {
	if plan.Changes() == 0 {
		const message = "the commit was applied, but %s is being deleted: the publisher creates the object again " +
			"afterwards; to delete it permanently, remove it from Git"
		return &failure{v1beta2.ReasonCommitOverwritten, fmt.Errorf(message, joinKeys(plan.Deleting))}
	}
	keys := slices.Clone(plan.Prune)
	for _, w := range plan.Apply {
		keys = append(keys, KeyOf(&w.Object))
	}
	const message = "the commit was applied, but another client changes its objects: %s: stop the other client"
	return &failure{v1beta2.ReasonCommitOverwritten, fmt.Errorf(message, joinKeys(keys))}
}

// finish records that the whole commit is applied. From then on, bundles refer to this commit.
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
		state[fieldMessage] += fmt.Sprintf("; not in the commit but protected by the annotation %s: %s",
			v1beta2.AnnotationPrune, joinKeys(s.Plan.Protected))
	}
	if !s.Plan.isEmpty() {
		// apply then returns an error, and report records its reason and message
		state = map[string]string{fieldReady: string(metav1.ConditionFalse)}
	}
	fields := map[string]string{
		fieldRepository: repository.URL, fieldRevision: repository.Revision(), fieldPath: repository.Path,
		fieldCommit: commit.Hash, fieldAuthor: commit.Author, fieldTime: commit.Time.UTC().Format(time.RFC3339),
		fieldSignedBy:  commit.SignedBy,
		fieldInventory: text, fieldAdded: "", fieldApplying: "", fieldHeld: "", fieldWaiting: "",
	}
	for name, value := range state {
		fields[name] = value
	}
	if err := f.write(ctx, s.record, fields); err != nil {
		return err
	}
	f.lastCommit = repository.Applied(commit)
	applied.Reset()
	applied.WithLabelValues(commit.Hash).Set(1)
	f.setPartial("")
	return nil
}

// step performs a plan's changes once. The publisher does not publish bundles while a commit is only partially applied.
func (f *Follower) step(ctx context.Context, repository *git.Repository, commit *git.Commit, s Survey) error {
	// The API server must accept the whole commit in a dry run before step changes anything.
	if err := f.applyAll(ctx, s.Plan.Apply, nil, client.DryRunAll); err != nil {
		return &failure{refusedOr(f.partial), err}
	}
	// The record lists new objects before their creation, so a restarted process finds them.
	fields, err := startFields(s)
	if err != nil {
		return &failure{v1beta2.ReasonCommitRefused, err}
	}
	held := f.mustHold(s.record, repository, commit)
	if held {
		fields[fieldApplying] = commit.Hash
		f.setPartial(commit.Hash)
	}
	if err := f.write(ctx, s.record, fields); err != nil {
		return err
	}
	f.current.Store(&bundle.Source{Repository: repository.URL, Commit: commit.Hash})
	if held {
		// f.current already refers to this commit, so Stop also sends the commit's approvals to the shards. The shards
		// must receive them before an object is removed.
		if err := f.stop(ctx); err != nil {
			return err
		}
	}
	if err := f.applyAll(ctx, s.Plan.Apply, s.Live); err != nil {
		return err
	}
	changes.WithLabelValues("apply").Add(float64(len(s.Plan.Apply)))
	if err := f.pruneObjects(ctx, s.Plan.Prune, s.Live); err != nil {
		return err
	}
	changes.WithLabelValues("prune").Add(float64(len(s.Plan.Prune)))
	return f.disownObjects(ctx, s.Plan.Disown, s.Live)
}

// stop waits until all replicas have stopped publishing.
func (f *Follower) stop(ctx context.Context) error {
	if f.Stop == nil {
		return nil
	}
	if err := f.Stop(ctx); err != nil {
		return &failure{v1beta2.ReasonCommitApplyFailed, fmt.Errorf("stop publishing in all replicas: %w", err)}
	}
	return nil
}

// mustHold reports whether publishing must stop while the commit is applied. If the commit was already applied and step
// only reverts another client's edit, publishing continues. Otherwise, a single edit could stop the whole fleet.
func (f *Follower) mustHold(r *record, repository *git.Repository, commit *git.Commit) bool {
	return f.partial != "" || !r.isWhole(repository, commit.Hash)
}

// refusedOr returns the condition reason for a commit that the API server rejects. partial is the partially applied
// commit, or empty if no commit is partially applied.
func refusedOr(partial string) string {
	if partial != "" {
		return v1beta2.ReasonCommitApplyFailed
	}
	return v1beta2.ReasonCommitRefused
}

// startFields returns the fields to write to the record at the start of a step. They list the objects to create.
func startFields(s Survey) (map[string]string, error) {
	known := map[Key]bool{}
	for _, key := range s.previous.Keys {
		known[key] = true
	}
	added := slices.Clone(s.previous.Added)
	inventory := slices.Clone(s.previous.Keys)
	for _, key := range s.Plan.Inventory {
		// Existing objects belong to the repository only after the whole commit was applied. Reverting a partially
		// applied commit must not delete them.
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
		text = "" // too large for the record, so a revert may need an operator's approval
	}
	return map[string]string{fieldInventory: all, fieldAdded: text}, nil
}
