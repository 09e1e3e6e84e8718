package ingest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func sealedAs(revision string) func(*Facts) {
	return func(f *Facts) { f.Published.Predicate.Sealed = &bundle.Sealed{Revision: revision} }
}

func reportedAs(revision, trouble string) func(*Facts) {
	return func(f *Facts) { f.Report.Secrets = &bundle.ReportedSecrets{Revision: revision, Trouble: trouble} }
}

func TestOutcomeOfSecretsIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		scene  *scene
		reason string // empty for no condition
		state  v1beta2.State
	}{
		"none were ever there": {healthy(), "", v1beta2.StateReady},
		"written": {
			healthy().with(sealedAs("1")).with(reportedAs("1", "")), "Written", v1beta2.StateReady,
		},
		"not reported yet": {healthy().with(sealedAs("1")), "Pending", v1beta2.StateReady},
		"older ones are reported": {
			healthy().with(sealedAs("2")).with(reportedAs("1", "")), "Pending", v1beta2.StateReady,
		},
		"reported for an older bundle": {
			healthy().with(sealedAs("1")).with(reportedAs("1", "")).with(reportedEarlierBundle), "Pending",
			v1beta2.StateProcessing,
		},
		"not written": {
			healthy().with(sealedAs("1")).with(reportedAs("1", "secret a/b: namespace a is not there yet")),
			"NotWritten",
			v1beta2.StateWarning,
		},
		"not sealed": {
			healthy().with(func(f *Facts) { f.SecretsError = errors.New("too large") }), "NotSealed",
			v1beta2.StateWarning,
		},
		"not sealed, others are": {
			healthy().with(sealedAs("1")).with(reportedAs("1", "")).
				with(func(f *Facts) { f.SecretsError = errors.New("too large") }), "NotSealed", v1beta2.StateWarning,
		},
		"neither reports anything": {
			healthy().with(nothingReported).with(sealedAs("1")), "Pending", v1beta2.StateProcessing,
		},
	} {
		t.Run(name, func(t *testing.T) {
			status := c.scene.status()
			condition := meta.FindStatusCondition(status.Conditions, v1beta2.ConditionSecrets)
			if (condition == nil) != (c.reason == "") || condition != nil && condition.Reason != c.reason ||
				status.State != c.state {
				t.Errorf("%s, %+v", status.State, condition)
			}
		})
	}
	once := healthy().with(sealedAs("1")).with(reportedAs("1", "not well"))
	once.before = once.status()
	once.facts.Published.Predicate.Sealed, once.facts.Report.Secrets = nil, nil
	if condition := meta.FindStatusCondition(once.status().Conditions, v1beta2.ConditionSecrets); condition == nil ||
		condition.Status != "True" {
		t.Errorf("trouble stays when there is nothing left to be in trouble: %+v", condition)
	}
}

func TestSecretIsRecordedUntilItIsRemoved(t *testing.T) {
	have := []bundle.RuntimeSecret{{Namespace: "a", Name: "x"}}
	before := []string{"a/gone", "a/x"}
	for name, c := range map[string]struct {
		facts Facts
		gone  bool
	}{
		"the bundle with the revision is applied": {healthy().with(sealedAs("1")).with(reportedAs("1", "")).facts, true},
		"nothing is published":                    {Facts{}, false},
		"no revision is reported":                 {healthy().with(sealedAs("1")).facts, false},
		"nothing is sealed":                       {healthy().with(reportedAs("1", "")).facts, false},
		"an older revision is reported": {healthy().with(sealedAs("2")).with(reportedAs("1", "")).facts,
			false},
		"not all of it is done": {
			healthy().with(sealedAs("1")).with(reportedAs("1", "not well")).facts, false,
		},
		"it is reported for an older bundle": {
			healthy().with(sealedAs("1")).with(reportedAs("1", "")).with(reportedEarlierBundle).facts, false,
		},
		"the runtime is silent": {healthy().with(sealedAs("1")).with(nothingReported).facts, false},
		"not all could be sealed": {
			healthy().with(sealedAs("1")).with(reportedAs("1", "")).
				with(func(f *Facts) { f.SecretsError = errors.New("too large") }).facts, false,
		},
		"it could not be published": {
			healthy().with(sealedAs("1")).with(reportedAs("1", "")).
				with(func(f *Facts) { f.PublishError = errors.New("no") }).facts, false,
		},
	} {
		known := KnownSecrets(before, have, c.facts)
		if !slices.Contains(known, "a/x") || slices.Contains(known, "a/gone") == c.gone || !slices.IsSorted(known) ||
			strings.Count(strings.Join(known, " "), "a/x") != 1 {
			t.Errorf("%s: known %v", name, known)
		}
	}
}

func TestOnlyARealRecipientIsRemembered(t *testing.T) {
	const genuine = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
	for reported, want := range map[string]string{genuine: genuine, "": "", "age1nobody": "",
		strings.Repeat("a", 10_000): ""} {
		s := healthy()
		s.facts.Report.Enrolled, s.facts.Report.Recipient = true, reported
		if got := s.remember().before.Runtime.Key.Recipient; got != want {
			t.Errorf("remembers %.80q of %.80q", got, reported)
		}
	}
}
