package bundle

import (
	"testing"
	"time"
)

// TestAfterNinetyDaysWithoutContact follows a runtime by its clock: what docs/security.md says of a long silence.
func TestAfterNinetyDaysWithoutContact(t *testing.T) {
	const days = 24 * time.Hour
	signer := newSigner(t)
	root := rootFor(t, signer) // until a year after testNow
	at := func(sequence int64, issued time.Time, life time.Duration) Fetched {
		predicate := samplePredicate()
		predicate.Sequence, predicate.IssuedAt, predicate.ExpiresAt = sequence, issued, issued.Add(life)
		manifest, err := Compose(sampleDocuments(t), predicate, signer)
		if err != nil {
			t.Fatal(err)
		}
		return Fetched(manifest)
	}
	first := at(1, testNow, 7*days)
	trust := Trust{Root: root, Runtime: testRuntime, ClusterUID: testCluster}
	accepted, err := Verify(first, trust, testNow.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	trust.Last = accepted.Accepted
	back := testNow.Add(90 * days)
	for _, c := range []struct {
		name   string
		bundle Fetched
		now    time.Time
		trust  func(Trust) Trust
		want   Reason
	}{
		{"the bundle in force is over", first, back, nil, ReasonExpired},
		{"what an attacker kept back all that time is over too", at(2, testNow.Add(10*days), 7*days), back, nil, ReasonExpired},
		{"the next one is taken", at(3, back, 7*days), back, nil, ""},
		{"so is one that was made for a long way", at(3, testNow.Add(days), 90*days), back, nil, ""},
		{"a clock that stood still is too far behind", at(3, back, 7*days), testNow, nil, ReasonNotYetIssued},
		{"unless it was allowed for", at(3, back, 7*days), testNow, func(t Trust) Trust { t.ClockSkew = 91 * days; return t }, ""},
		{"a root that expired meanwhile lets nothing in", at(3, testNow.AddDate(1, 0, 0), 7*days), testNow.AddDate(1, 0, 1), nil, ReasonRootExpired},
	} {
		t.Run(c.name, func(t *testing.T) {
			trust := trust
			if c.trust != nil {
				trust = c.trust(trust)
			}
			_, err := Verify(c.bundle, trust, c.now)
			got := Reason("")
			if refusal := RefusalOf(err); refusal != nil {
				got = refusal.Reason
			}
			if got != c.want {
				t.Errorf("got %q, want %q", err, c.want)
			}
		})
	}
}
