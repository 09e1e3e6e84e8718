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

func TestSecretsConditionReportsOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		scene  *scene
		reason string // empty for no condition
		state  v1beta2.State
	}{
		"runtime that never had Secrets": {healthy(), "", v1beta2.StateReady},
		"Secrets written": {
			healthy().with(sealedAs("1")).with(reportedAs("1", "")), "Written", v1beta2.StateReady,
		},
		"Secrets not reported yet": {healthy().with(sealedAs("1")), "Pending", v1beta2.StateReady},
		"older revision of the Secrets reported": {
			healthy().with(sealedAs("2")).with(reportedAs("1", "")), "Pending", v1beta2.StateReady,
		},
		"report about an earlier bundle": {
			healthy().with(sealedAs("1")).with(reportedAs("1", "")).with(reportedEarlierBundle), "Pending",
			v1beta2.StateProcessing,
		},
		"Secrets not written": {
			healthy().with(sealedAs("1")).with(reportedAs("1", "secret a/b: namespace a does not exist yet")),
			"NotWritten",
			v1beta2.StateWarning,
		},
		"Secrets not sealed": {
			healthy().with(func(f *Facts) { f.SecretsError = errors.New("too large") }), "NotSealed",
			v1beta2.StateWarning,
		},
		"Secrets not sealed after earlier Secrets were written": {
			healthy().with(sealedAs("1")).with(reportedAs("1", "")).
				with(func(f *Facts) { f.SecretsError = errors.New("too large") }), "NotSealed", v1beta2.StateWarning,
		},
		"runtime never reported": {
			healthy().with(nothingReported).with(sealedAs("1")), "Pending", v1beta2.StateProcessing,
		},
	} {
		t.Run(name, func(t *testing.T) {
			status := c.scene.status()
			condition := meta.FindStatusCondition(status.Conditions, v1beta2.ConditionSecrets)
			if (condition == nil) != (c.reason == "") || condition != nil && condition.Reason != c.reason ||
				status.State != c.state {
				t.Errorf("got state %s and condition %+v, want %s and reason %q", status.State, condition, c.state,
					c.reason)
			}
		})
	}
	once := healthy().with(sealedAs("1")).with(reportedAs("1", "failed"))
	once.before = once.status()
	once.facts.Published.Predicate.Sealed, once.facts.Report.Secrets = nil, nil
	if condition := meta.FindStatusCondition(once.status().Conditions, v1beta2.ConditionSecrets); condition == nil ||
		condition.Status != "True" {
		t.Errorf("after the last Secret was removed: got %+v, want status True", condition)
	}
}

func TestSecretIsRecordedUntilItIsRemoved(t *testing.T) {
	have := []bundle.RuntimeSecret{{Namespace: "a", Name: "x"}}
	before := []string{"a/gone", "a/x"}
	for name, c := range map[string]struct {
		facts Facts
		gone  bool
	}{
		"Secrets are written":       {healthy().with(sealedAs("1")).with(reportedAs("1", "")).facts, true},
		"no bundle is published":    {Facts{}, false},
		"Secrets are not reported":  {healthy().with(sealedAs("1")).facts, false},
		"bundle contains no Secret": {healthy().with(reportedAs("1", "")).facts, false},
		"older revision is reported": {healthy().with(sealedAs("2")).with(reportedAs("1", "")).facts,
			false},
		"Secrets are not written": {
			healthy().with(sealedAs("1")).with(reportedAs("1", "failed")).facts, false,
		},
		"report about an earlier bundle": {
			healthy().with(sealedAs("1")).with(reportedAs("1", "")).with(reportedEarlierBundle).facts, false,
		},
		"runtime never reported": {healthy().with(sealedAs("1")).with(nothingReported).facts, false},
		"Secrets are not sealed": {
			healthy().with(sealedAs("1")).with(reportedAs("1", "")).
				with(func(f *Facts) { f.SecretsError = errors.New("too large") }).facts, false,
		},
		"publishing failed": {
			healthy().with(sealedAs("1")).with(reportedAs("1", "")).
				with(func(f *Facts) { f.PublishError = errors.New("no") }).facts, false,
		},
	} {
		known := KnownSecrets(before, have, c.facts)
		if !slices.Contains(known, "a/x") || slices.Contains(known, "a/gone") == c.gone || !slices.IsSorted(known) ||
			strings.Count(strings.Join(known, " "), "a/x") != 1 {
			t.Errorf("%s: got known Secrets %v, want a/gone removed %t", name, known, c.gone)
		}
	}
}

func TestCompletedSecretRemovalsAreForgotten(t *testing.T) {
	facts := healthy().with(sealedAs("1")).with(reportedAs("1", "")).facts
	facts.SecretsError, facts.SealedRemovals = errors.New("only 1 of the 2 Secrets to remove fits"), []string{"a/gone"}
	if known := KnownSecrets([]string{"a/gone", "a/waiting"}, nil, facts); !slices.Equal(known, []string{"a/waiting"}) {
		t.Errorf("got known Secrets %v, want a/waiting", known)
	}
}

func TestOnlyConfirmedAgentsChangeTheRecipient(t *testing.T) {
	const first = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
	const other = "age1lggyhqrw2nlhcxprm67z43rta597azn8gknawjehu9d9dl0jq3yqqvfafg"
	var status v1beta2.KymaStatus
	report := func(instance, recipient string, enrolled, confirmed bool) string {
		RecordReport(&status, bundle.AcceptedReport{Enrolled: enrolled, Report: bundle.Report{
			Instance: instance, Recipient: recipient, Confirmed: confirmed, Time: noon,
		}}, "key", "thumbprint", noon)
		return status.Runtime.Key.Recipient
	}
	for _, c := range []struct {
		name, instance, recipient string
		enrolled, confirmed       bool
		want                      string
	}{
		{"enrollment", "original", first, true, false, first},
		{"first report of a copy", "copy", other, false, false, first},
		{"confirmed agent with a new key", "copy", other, false, true, other},
		{"agents alternate", "original", first, false, true, other},
		{"new enrollment", "next", first, true, false, first},
	} {
		if got := report(c.instance, c.recipient, c.enrolled, c.confirmed); got != c.want {
			t.Errorf("%s: got recipient %q, want %q", c.name, got, c.want)
		}
	}
}

func TestInvalidRecipientIsNotRecorded(t *testing.T) {
	const genuine = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
	for reported, want := range map[string]string{genuine: genuine, "": "", "age1nobody": "",
		strings.Repeat("a", 10_000): ""} {
		s := healthy()
		s.facts.Report.Enrolled, s.facts.Report.Recipient = true, reported
		if got := s.remember().before.Runtime.Key.Recipient; got != want {
			t.Errorf("reported recipient %.80q: got %.80q, want %.80q", reported, got, want)
		}
	}
}
