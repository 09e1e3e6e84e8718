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

func TestHoldEndsOnceNoCommitIsPartiallyApplied(t *testing.T) {
	holds := 0
	f := &Follower{}
	f.Hold = func() func() {
		holds++
		return func() {
			if holds--; holds == 0 && f.partial != "" {
				t.Error("the hold ended while a commit is applied in part")
			}
		}
	}
	for _, step := range []struct {
		name string
		do   func()
		held bool
	}{
		{"before the start", func() { f.release = f.Hold() }, true},
		{"start", func() { f.partial = "c1"; f.setHold(true) }, true},
		{"record of a partial commit", func() { f.setPartial("c1") }, true},
		{"another partial commit", func() { f.setPartial("c2") }, true},
		{"commit complete, branch not read yet", func() { f.setPartial("") }, true},
		{"branch read", func() { f.hasRead = true; f.setPartial("") }, false},
		{"no change", func() { f.setPartial("") }, false},
		{"next commit begins", func() { f.setPartial("c3") }, true},
	} {
		if step.do(); (holds == 1) != step.held || holds > 1 {
			t.Errorf("%s: got %d holds of publishing, want held %t", step.name, holds, step.held)
		}
	}
}

func TestStartedPublisherHoldsBundlesUntilBranchIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		held bool
	}{
		"branch cannot be read":                 {newFailure(v1beta2.ReasonFetchFailed, errors.New("x")), true},
		"API server fails":                      {errors.New("x"), true},
		"commit applied in part":                {newFailure(v1beta2.ReasonCommitApplyFailed, errors.New("x")), true},
		"commit refused":                        {newFailure(v1beta2.ReasonCommitRefused, errors.New("x")), false},
		"commit waits for approval":             {newFailure(v1beta2.ReasonPruneNotAllowed, errors.New("x")), false},
		"commit from a rewound branch":          {newFailure(v1beta2.ReasonRewindNotAllowed, errors.New("x")), false},
		"objects overwritten by another client": {newFailure(v1beta2.ReasonCommitOverwritten, errors.New("x")), false},
		"commit applied":                        {nil, false},
	} {
		holds := 0
		f, err := New(t.Context(), Options{Hold: func() func() { holds++; return func() { holds-- } }}, nil)
		if err != nil {
			t.Fatal(err)
		}
		f.endStartHold(c.err)
		if (holds > 0) != c.held {
			t.Errorf("%s: held %t, want %t", name, holds > 0, c.held)
		}
		if f.endStartHold(newFailure(v1beta2.ReasonFetchFailed, errors.New("x"))); holds > 0 != c.held {
			t.Errorf("%s: a later failure changes the hold", name)
		}
	}
}

func TestFailedPollHasAReason(t *testing.T) {
	if v1beta2.ReasonCommitApplyFailed != "CommitApplyFailed" {
		t.Error("the reasons of modules and commits are no longer equal: " + v1beta2.ReasonCommitApplyFailed)
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"FetchError without a cause": {&git.FetchError{}, v1beta2.ReasonFetchFailed},
		"FetchError with refused credentials": {
			fmt.Errorf("read the references: %w", &git.FetchError{Cause: git.CredentialsRefused}),
			v1beta2.ReasonAuthenticationFailed,
		},
		"FetchError with a bad host key": {&git.FetchError{Cause: git.HostKeyRefused}, v1beta2.ReasonHostKeyRefused},
		"error that already has a reason": {
			fmt.Errorf("commit: %w", &failure{v1beta2.ReasonPruneNotAllowed, errors.New("x")}),
			v1beta2.ReasonPruneNotAllowed,
		},
		"error without a reason": {errors.New("x"), v1beta2.ReasonCommitRefused},
		"commit refused while another commit is partial": {
			&failure{refusedOr("c1"), errors.New("x")}, v1beta2.ReasonCommitApplyFailed,
		},
		"commit refused, no partial commit": {&failure{refusedOr(""), errors.New("x")}, v1beta2.ReasonCommitRefused},
	} {
		var known *failure
		if err := newFailure(v1beta2.ReasonCommitRefused, c.err); !errors.As(err, &known) || known.reason != c.want ||
			!errors.Is(err, c.err) {
			t.Errorf("%s: got %v, want %s", name, known.reason, c.want)
		}
	}
}

func TestEditsFromOtherClientsAreDetected(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*v1beta2.Kyma)
		want bool
	}{
		"changed status": {
			func(k *v1beta2.Kyma) { k.Status.State = v1beta2.StateError; k.ResourceVersion = "2" }, false,
		},
		"changed spec":   {func(k *v1beta2.Kyma) { k.Generation++ }, true},
		"added label":    {func(k *v1beta2.Kyma) { k.Labels = map[string]string{"a": "b"} }, true},
		"removed digest": {func(k *v1beta2.Kyma) { delete(k.Annotations, v1beta2.AnnotationGitDigest) }, true},
		"applied commit": {
			func(k *v1beta2.Kyma) { k.Generation++; k.Annotations[v1beta2.AnnotationGitDigest] = "d2" }, false,
		},
	} {
		before := &v1beta2.Kyma{}
		before.Annotations = map[string]string{v1beta2.AnnotationGitCommit: "c1", v1beta2.AnnotationGitDigest: "d1"}
		after := before.DeepCopy()
		c.edit(after)
		if got := isEdit(client.Object(before), after); got != c.want {
			t.Errorf("%s: got edit %t, want %t", name, got, c.want)
		}
		before.Annotations = nil
		if isEdit(before, after) {
			t.Errorf("%s: an edit of an object without a commit is reported", name)
		}
	}
}

type lost struct{ client.Reader }

func (lost) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, RecordName)
}

func TestDeletedCommitRecordDoesNotEndThePublishingHold(t *testing.T) {
	holds := 0
	f := &Follower{Options: Options{
		ControlPlane: ControlPlane{Reader: lost{}}, Hold: func() func() { holds++; return func() { holds-- } },
	}}
	f.hasRead = true
	f.setHold(true)
	f.setPartial("c2")
	if err := f.restoreState(t.Context()); err != nil || holds != 1 || f.partial != "c2" {
		t.Errorf("deleted record: got %d holds, commit %q, error %v, want one hold and c2", holds, f.partial, err)
	}
	// Another client has removed the commit in progress from the record.
	r := &record{corev1.ConfigMap{Data: map[string]string{fieldCommit: "c1"}}}
	f.holdIfPartial(r)
	if holds != 1 || f.failureFields("X", "why", "", r)[fieldApplying] != "c2" {
		t.Errorf("record without the commit: got %d holds and fields %v, want one hold and c2", holds,
			f.failureFields("X", "why", "", r))
	}
	f.setPartial("")
	if f.holdIfPartial(r); holds != 0 {
		t.Error("publishing is held after the commit was completed")
	}
}

func TestPublishingStopsOnlyDuringPartialCommits(t *testing.T) {
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
		"revert of an edit":                   {whole, "c1", "", false},
		"next commit":                         {whole, "c2", "", true},
		"commit applied in part":              {whole, "c2", "c2", true},
		"revert of a partial commit":          {whole, "c1", "c2", true},
		"same commit from a different folder": {elsewhere, "c1", "", true},
		"control plane without a record":      {&record{}, "c1", "", true},
	} {
		if got := (&Follower{partial: c.partial}).
			mustHold(c.record, repository, &git.Commit{Hash: c.commit}); got != c.want {
			t.Errorf("%s: got held %t, want %t", name, got, c.want)
		}
	}
}

func TestFailureMessagesLeaveRoomForTheInventory(t *testing.T) {
	fields := (&Follower{}).failureFields("X", strings.Repeat("x", 1<<20), "", &record{})
	if got := len(fields[fieldMessage]); got > maxMessageBytes {
		t.Errorf("got a message of %d bytes, want at most the limit", got)
	}
}
