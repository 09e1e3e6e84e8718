package follow

import (
	"errors"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/git"
)

func TestWhatIsHeldIsReleasedOnceNoCommitIsPartialAndNeverBefore(t *testing.T) {
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
		{"it is complete", func() { f.isPartial("") }, false},
		{"nothing new", func() { f.isPartial("") }, false},
		{"the next commit begins", func() { f.isPartial("c3") }, true},
	} {
		if step.do(); (holds == 1) != step.held || holds > 1 {
			t.Errorf("%s: held %d times, want held %t", step.name, holds, step.held)
		}
	}
}

func TestEveryFailureHasAReason(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"the network":           {&git.FetchError{}, v1beta2.ReasonFetchFailed},
		"a wrong password":      {fmt.Errorf("look: %w", &git.FetchError{Cause: git.CredentialsRefused}), v1beta2.ReasonAuthenticationFailed},
		"another host key":      {&git.FetchError{Cause: git.HostKeyRefused}, v1beta2.ReasonHostKeyRefused},
		"what is known already": {fmt.Errorf("commit: %w", &failure{v1beta2.ReasonPruneNotAllowed, errors.New("x")}), v1beta2.ReasonPruneNotAllowed},
		"everything else":       {errors.New("x"), v1beta2.ReasonCommitRefused},
		"refused while in part": {&failure{refusedOr("c1"), errors.New("x")}, v1beta2.ReasonCommitApplyFailed},
		"refused with none so":  {&failure{refusedOr(""), errors.New("x")}, v1beta2.ReasonCommitRefused},
	} {
		var known *failure
		if err := failed(v1beta2.ReasonCommitRefused, c.err); !errors.As(err, &known) || known.reason != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: got %v, want %s", name, known.reason, c.want)
		}
	}
}

func TestOnlyEditsOfOthersAreNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*v1beta2.Kyma)
		want bool
	}{
		"the status":              {func(k *v1beta2.Kyma) { k.Status.State = v1beta2.StateError; k.ResourceVersion = "2" }, false},
		"the spec":                {func(k *v1beta2.Kyma) { k.Generation++ }, true},
		"a label":                 {func(k *v1beta2.Kyma) { k.Labels = map[string]string{"a": "b"} }, true},
		"the digest is taken off": {func(k *v1beta2.Kyma) { delete(k.Annotations, v1beta2.AnnotationGitDigest) }, true},
		"the next commit":         {func(k *v1beta2.Kyma) { k.Generation++; k.Annotations[v1beta2.AnnotationGitDigest] = "d2" }, false},
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
