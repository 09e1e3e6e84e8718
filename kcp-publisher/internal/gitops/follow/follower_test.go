package follow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/git"
)

func TestHoldEndsOnceNoCommitIsPartial(t *testing.T) {
	holds := 0
	f := &Follower{}
	f.Hold = func() func() {
		holds++
		return func() {
			if holds--; holds == 0 && f.partial != "" {
				t.Error("something is published while a commit is applied in part")
			}
		}
	}
	for _, step := range []struct {
		name string
		do   func()
		held bool
	}{
		{"before it is known", f.HoldUntilStarted, true},
		{"at the start", func() { f.partial = "c1"; f.hold(true) }, true},
		{"an earlier leader left a commit in part", func() { f.isPartial("c1") }, true},
		{"another commit comes", func() { f.isPartial("c2") }, true},
		{"it is complete, and the branch was not read yet", func() { f.isPartial("") }, true},
		{"the branch is read", func() { f.begun = true; f.isPartial("") }, false},
		{"nothing new", func() { f.isPartial("") }, false},
		{"the next commit begins", func() { f.isPartial("c3") }, true},
	} {
		if step.do(); (holds == 1) != step.held || holds > 1 {
			t.Errorf("%s: held %d times, want held %t", step.name, holds, step.held)
		}
	}
}

// TestFirstLookEndsTheHoldOfTheStart holds publishing until a process has read the branch, because the control plane
// can have been restored from a backup.
func TestFirstLookEndsTheHoldOfTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		held bool
	}{
		"the branch cannot be read":          {failed(v1beta2.ReasonFetchFailed, errors.New("x")), true},
		"the API server fails":               {errors.New("x"), true},
		"the commit fails half way":          {failed(v1beta2.ReasonCommitApplyFailed, errors.New("x")), true},
		"the commit is refused":              {failed(v1beta2.ReasonCommitRefused, errors.New("x")), false},
		"the commit waits for an approval":   {failed(v1beta2.ReasonPruneNotAllowed, errors.New("x")), false},
		"the commit does not descend":        {failed(v1beta2.ReasonRewindNotAllowed, errors.New("x")), false},
		"others change the commit's objects": {failed(v1beta2.ReasonCommitOverwritten, errors.New("x")), false},
		"the commit is applied":              {nil, false},
	} {
		holds := 0
		f := &Follower{Hold: func() func() { holds++; return func() { holds-- } }}
		f.HoldUntilStarted()
		f.ended(c.err)
		if (holds > 0) != c.held {
			t.Errorf("%s: held %t, want %t", name, holds > 0, c.held)
		}
		if f.ended(failed(v1beta2.ReasonFetchFailed, errors.New("x"))); holds > 0 != c.held {
			t.Errorf("%s: a later failure changes the hold", name)
		}
	}
}

func TestFailuresHaveAReason(t *testing.T) {
	if v1beta2.ReasonCommitApplyFailed != "CommitApplyFailed" {
		t.Error("a module and a commit fail by the same word: " + v1beta2.ReasonCommitApplyFailed)
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"the network": {&git.FetchError{}, v1beta2.ReasonFetchFailed},
		"a wrong password": {
			fmt.Errorf("look: %w", &git.FetchError{Cause: git.CredentialsRefused}), v1beta2.ReasonAuthenticationFailed,
		},
		"another host key": {&git.FetchError{Cause: git.HostKeyRefused}, v1beta2.ReasonHostKeyRefused},
		"what is known already": {
			fmt.Errorf("commit: %w", &failure{v1beta2.ReasonPruneNotAllowed, errors.New("x")}),
			v1beta2.ReasonPruneNotAllowed,
		},
		"everything else":       {errors.New("x"), v1beta2.ReasonCommitRefused},
		"refused while in part": {&failure{refusedOr("c1"), errors.New("x")}, v1beta2.ReasonCommitApplyFailed},
		"refused with none so":  {&failure{refusedOr(""), errors.New("x")}, v1beta2.ReasonCommitRefused},
	} {
		var known *failure
		if err := failed(v1beta2.ReasonCommitRefused, c.err); !errors.As(err, &known) || known.reason != c.want ||
			!errors.Is(err, c.err) {
			t.Errorf("%s: got %v, want %s", name, known.reason, c.want)
		}
	}
}

func TestOnlyEditsOfOtherClientsAreNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*v1beta2.Kyma)
		want bool
	}{
		"the status": {
			func(k *v1beta2.Kyma) { k.Status.State = v1beta2.StateError; k.ResourceVersion = "2" }, false,
		},
		"the spec":                {func(k *v1beta2.Kyma) { k.Generation++ }, true},
		"a label":                 {func(k *v1beta2.Kyma) { k.Labels = map[string]string{"a": "b"} }, true},
		"the digest is taken off": {func(k *v1beta2.Kyma) { delete(k.Annotations, v1beta2.AnnotationGitDigest) }, true},
		"the next commit": {
			func(k *v1beta2.Kyma) { k.Generation++; k.Annotations[v1beta2.AnnotationGitDigest] = "d2" }, false,
		},
	} {
		before := &v1beta2.Kyma{}
		before.Annotations = map[string]string{v1beta2.AnnotationGitCommit: "c1", v1beta2.AnnotationGitDigest: "d1"}
		after := before.DeepCopy()
		c.edit(after)
		if got := isEdit(client.Object(before), after); got != c.want {
			t.Errorf("%s: an edit: %t", name, got)
		}
		before.Annotations = nil
		if isEdit(before, after) {
			t.Errorf("%s: of an object that no commit brought", name)
		}
	}
}

// lost is a control plane without the record.
type lost struct{ client.Reader }

func (lost) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, RecordName)
}

func TestDeletingTheRecordReleasesNothing(t *testing.T) {
	holds := 0
	f := &Follower{Reader: lost{}, Hold: func() func() { holds++; return func() { holds-- } }}
	f.begun = true
	f.hold(true)
	f.isPartial("c2")
	if err := f.recall(t.Context()); err != nil || holds != 1 || f.partial != "c2" {
		t.Errorf("held %d times for commit %q, %v", holds, f.partial, err)
	}
	// Another client removed the applying commit from the record.
	r := &record{corev1.ConfigMap{Data: map[string]string{fieldCommit: "c1"}}}
	f.noteRecord(r)
	if holds != 1 || f.failureFields("X", "why", "", r)[fieldApplying] != "c2" {
		t.Errorf("held %d times, and the record gets %v", holds, f.failureFields("X", "why", "", r))
	}
	f.isPartial("")
	if f.noteRecord(r); holds != 0 {
		t.Error("a commit that is whole holds")
	}
}

func TestOnlyAPartialCommitHolds(t *testing.T) {
	repository := &git.Repository{}
	repository.URL, repository.Path = "https://git.example/fleet", "fleet"
	whole := &record{
		corev1.ConfigMap{
			Data: map[string]string{fieldCommit: "c1", fieldRepository: repository.URL, fieldPath: "fleet"},
		},
	}
	elsewhere := &record{
		corev1.ConfigMap{
			Data: map[string]string{fieldCommit: "c1", fieldRepository: repository.URL, fieldPath: "other"},
		},
	}
	for name, c := range map[string]struct {
		record          *record
		commit, partial string
		want            bool
	}{
		"an edit is set back":             {whole, "c1", "", false},
		"the next commit":                 {whole, "c2", "", true},
		"one that was applied in part":    {whole, "c2", "c2", true},
		"one is taken back":               {whole, "c1", "c2", true},
		"another folder":                  {elsewhere, "c1", "", true},
		"the first, or a record was lost": {&record{}, "c1", "", true},
	} {
		if got := (&Follower{partial: c.partial}).
			holds(c.record, repository, &git.Commit{Hash: c.commit}); got != c.want {
			t.Errorf("%s: holds %t", name, got)
		}
	}
}

func TestMessagesLeaveRoomForTheInventory(t *testing.T) {
	fields := (&Follower{}).failureFields("X", strings.Repeat("x", 1<<20), "", &record{})
	if got := len(fields[fieldMessage]); got > maxMessageBytes {
		t.Errorf("a message of %d bytes", got)
	}
}
