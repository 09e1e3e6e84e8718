package command

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/preflight"
)

func TestCheckReportsWhetherNewestBundleIsAccepted(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "skr-agent-state", errors.New("no"))
	b := &bundle.Bundle{}
	b.Statement.Predicate.Sequence = 7
	for name, c := range map[string]struct {
		s        agentState
		restored error
		changed  bool
		err      error
		want     preflight.Result
		message  string
	}{
		"complete state and a newer bundle": {
			agentState{thumbprint: "mine", uid: "u"}, nil, true, nil, preflight.Passed, "bundle 7 would be accepted",
		},
		"bundle already accepted": {
			agentState{thumbprint: "mine", uid: "u"}, nil, false, nil, preflight.Passed, "bundle 7 was accepted",
		},
		"agent's key unreadable": {
			agentState{uid: "u"}, nil, true, nil, preflight.Warning, "not completely verified: the agent's key",
		},
		"cluster UID unreadable": {
			agentState{thumbprint: "mine"}, nil, true, nil, preflight.Warning, "the UID of the cluster",
		},
		"reading the agent's state is forbidden": {
			agentState{thumbprint: "mine", uid: "u"}, forbidden, true, nil, preflight.Warning, "the agent's state",
		},
		"timeout reading the agent's state": {
			agentState{thumbprint: "mine", uid: "u"}, context.DeadlineExceeded, true, nil, preflight.Warning,
			"the agent's state",
		},
		"agent's state damaged": {
			agentState{thumbprint: "mine", uid: "u"}, errors.New("accepted.json: eof"), true, nil, preflight.Passed,
			"would be accepted",
		},
		"bundle refused although the state is incomplete": {
			agentState{}, nil, false, refusal.New(refusal.Expired, "expired"), preflight.Failed, "expired",
		},
		"installed modules unreadable": {
			agentState{thumbprint: "mine", uid: "u"}, nil, false, forbidden, preflight.Failed, "failed to verify the bundle",
		},
		"no bundle in the registry": {
			agentState{thumbprint: "mine", uid: "u"}, nil, false, store.ErrNotFound, preflight.Warning,
			"has no bundle for runtime berlin",
		},
		"registry unreachable": {
			agentState{thumbprint: "mine", uid: "u"}, nil, false, errors.New("no route"), preflight.Failed, "no route",
		},
		"key and cluster UID unreadable": {agentState{}, nil, true, nil, preflight.Warning, "not completely verified"},
	} {
		got := bundleFinding("r/fleet", "berlin", c.s.unreadablePart(c.restored), b, c.changed, c.err)
		if got.Result != c.want || !strings.Contains(got.Message, c.message) {
			t.Errorf("%s: got %+v, want result %s with %q", name, got, c.want, c.message)
		}
	}
	if got := stateFinding(forbidden); got.Result != preflight.Failed || !strings.Contains(got.Advice, "--as ") {
		t.Errorf("got %+v for a forbidden read, want a failure with the advice to use --as", got)
	}
	if got := stateFinding(errors.New("eof")); got.Result != preflight.Warning {
		t.Errorf("got %+v for damaged state, want a warning", got)
	}
}

func TestEnrollmentCheckDependsOnBundleOnly(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	by := func(known, kyma string) *bundle.Bundle {
		b := &bundle.Bundle{}
		b.Statement.Predicate = bundle.Predicate{
			Audience: bundle.Audience{Runtime: "berlin", KeyThumbprint: known},
			KymaUID:  kyma,
		}
		return b
	}
	good, over := &trust.Token{Expires: now.Add(time.Hour)}, &trust.Token{Expires: now.Add(-time.Hour)}
	for name, c := range map[string]struct {
		inForce *bundle.Bundle
		own     string
		token   *trust.Token
		want    preflight.Result
		message string
	}{
		"bundle contains the agent's key": {
			by("mine", "u"), "mine", nil, preflight.Passed, "knows the agent's key",
		},
		"no bundle": {nil, "mine", nil, preflight.Warning, "not verified"},
		"no bundle and an expired token": {
			nil, "mine", over, preflight.Warning, "expired at 2026-05-04T11:00:00Z",
		},
		"agent's key unreadable": {
			by("mine", "u"), "", good, preflight.Warning, "not verified: the agent's key",
		},
		"agent has a valid token": {
			by("", "u"), "mine", good, preflight.Passed, "until 2026-05-04T13:00:00Z",
		},
		"agent has no token": {
			by("", "u"), "mine", nil, preflight.Failed, "kcp-publisher enroll berlin",
		},
		"bundle contains another key and the token expired": {
			by("other", "u"), "mine", over, preflight.Failed, "kcp-publisher enroll berlin",
		},
		"bundle published without a control plane": {
			by("", ""), "mine", nil, preflight.Passed, "without a control plane",
		},
	} {
		s := agentState{bootstrap: bootstrap{runtime: "berlin", token: c.token}, thumbprint: c.own, uid: "u"}
		if got := enrollmentFinding(c.inForce, trust.Root{}, s, s.unreadablePart(nil), now); got.Result != c.want ||
			!strings.Contains(got.Message, c.message) {
			t.Errorf("%s: got %+v, want result %s with %q", name, got, c.want, c.message)
		}
	}
}

func TestCheckUsesModuleAccountPermissions(t *testing.T) {
	asked := []preflight.Permission{
		{Verb: "impersonate", Resource: "serviceaccounts", Name: "modules", Namespace: "kyma-system"},
		{Verb: "watch", Group: "*", Resource: "*"},
	}
	got := withImpersonation(asked, []string{
		"system:serviceaccount:keda:installer", "system:serviceaccount:kyma-system:own",
	})
	want := []preflight.Permission{
		{Verb: "impersonate", Resource: "serviceaccounts", Name: "installer", Namespace: "keda"},
		{Verb: "impersonate", Resource: "serviceaccounts", Name: "own", Namespace: "kyma-system"},
		{Verb: "watch", Group: "*", Resource: "*"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got permissions %v, want %v", got, want)
	}
	if own := asWarnings("modules istio are"+installedByAgent,
		[]preflight.Finding{
			preflight.Fail("rights, all-modules", "1 is missing", "apply"),
		}); own[0].Result != preflight.Warning ||
		!strings.HasPrefix(own[0].Message, "modules istio are installed") {
		t.Errorf("got %+v, want a warning about modules istio", own)
	}
}
