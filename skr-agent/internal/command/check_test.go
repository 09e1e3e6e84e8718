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

func TestUnknownFeatureIsRefused(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "skr-agent-state", errors.New("no"))
	b := &bundle.Bundle{}
	b.Statement.Predicate.Sequence = 7
	for name, c := range map[string]struct {
		s        seen
		restored error
		changed  bool
		err      error
		want     preflight.Result
		message  string
	}{
		"all is known": {
			seen{thumbprint: "mine", uid: "u"}, nil, true, nil, preflight.Passed, "7 would be accepted",
		},
		"the one in force": {
			seen{thumbprint: "mine", uid: "u"}, nil, false, nil, preflight.Passed, "7 was accepted",
		},
		"the agent's key is not known": {
			seen{uid: "u"}, nil, true, nil, preflight.Warning,
			"not known whether it would be accepted: the agent's key",
		},
		"the cluster is not known": {
			seen{thumbprint: "mine"}, nil, true, nil, preflight.Warning, "the UID of the cluster",
		},
		"the memory must not be read": {
			seen{thumbprint: "mine", uid: "u"}, forbidden, true, nil, preflight.Warning, "the agent's memory",
		},
		"the memory cannot be read now": {
			seen{thumbprint: "mine", uid: "u"}, context.DeadlineExceeded, true, nil, preflight.Warning,
			"the agent's memory",
		},
		"the memory is damaged": {
			seen{thumbprint: "mine", uid: "u"}, errors.New("accepted.json: eof"), true, nil, preflight.Passed,
			"would be accepted",
		},
		"a bundle that is refused without complete state": {
			seen{}, nil, false, refusal.New(refusal.Expired, "over"), preflight.Failed, "over",
		},
		"unknown installed modules": {
			seen{thumbprint: "mine", uid: "u"}, nil, false, forbidden, preflight.Failed, "not known",
		},
		"the registry has none": {
			seen{thumbprint: "mine", uid: "u"}, nil, false, store.ErrNotFound, preflight.Warning,
			"has none of runtime berlin",
		},
		"the registry cannot be asked": {
			seen{thumbprint: "mine", uid: "u"}, nil, false, errors.New("no route"), preflight.Failed, "no route",
		},
		"no reason for the unknown part": {seen{}, nil, true, nil, preflight.Warning, "not known"},
	} {
		got := judgeBundle("r/fleet", "berlin", c.s.unknown(c.restored), b, c.changed, c.err)
		if got.Result != c.want || !strings.Contains(got.Message, c.message) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := judgeMemory(forbidden); got.Result != preflight.Failed || !strings.Contains(got.Advice, "--as ") {
		t.Error(got)
	}
	if got := judgeMemory(errors.New("eof")); got.Result != preflight.Warning {
		t.Error(got)
	}
}

func TestEnrollmentIsJudgedByTheBundleAlone(t *testing.T) {
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
		"its key is known": {
			by("mine", "u"), "mine", nil, preflight.Passed, "knows the agent's key",
		},
		"no bundle could be read": {nil, "mine", nil, preflight.Warning, "not known"},
		"no bundle, and a token that is over": {
			nil, "mine", over, preflight.Warning, "expired at 2026-05-04T11:00:00Z",
		},
		"its key cannot be read": {
			by("mine", "u"), "", good, preflight.Warning, "not known: the agent's key",
		},
		"a token introduces it": {
			by("", "u"), "mine", good, preflight.Passed, "until 2026-05-04T13:00:00Z",
		},
		"nothing introduces it": {
			by("", "u"), "mine", nil, preflight.Failed, "kcp-publisher enroll berlin",
		},
		"another's is known and a token is not": {
			by("other", "u"), "mine", over, preflight.Failed, "kcp-publisher enroll berlin",
		},
		"there is no control plane": {by("", ""), "mine", nil, preflight.Passed, "without a control plane"},
	} {
		s := seen{known: bootstrap{runtime: "berlin", token: c.token}, thumbprint: c.own, uid: "u"}
		if got := judgeEnrollment(c.inForce, trust.Root{}, s, s.unknown(nil), now); got.Result != c.want ||
			!strings.Contains(got.Message, c.message) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestRightsAreCheckedForTheAccountsOfModules(t *testing.T) {
	asked := []preflight.Permission{
		{Verb: "impersonate", Resource: "serviceaccounts", Name: "modules", Namespace: "kyma-system"},
		{Verb: "watch", Group: "*", Resource: "*"},
	}
	got := impersonating(asked, []string{
		"system:serviceaccount:keda:installer", "system:serviceaccount:kyma-system:own",
	})
	want := []preflight.Permission{
		{Verb: "impersonate", Resource: "serviceaccounts", Name: "installer", Namespace: "keda"},
		{Verb: "impersonate", Resource: "serviceaccounts", Name: "own", Namespace: "kyma-system"},
		{Verb: "watch", Group: "*", Resource: "*"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if own := ownRights("modules istio are",
		[]preflight.Finding{
			preflight.Fail("rights, all-modules", "1 is missing", "apply"),
		}); own[0].Result != preflight.Warning ||
		!strings.HasPrefix(own[0].Message, "modules istio are installed") {
		t.Errorf("%+v", own)
	}
}
