package bundle

import (
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func TestVerifyAcceptsNextBundleAfterNinetyDaysOffline(t *testing.T) {
	const days = 24 * time.Hour
	signer := trusttest.NewSigner(t)
	root := trusttest.RootFor(t, signer) // valid until a year after trusttest.Now
	at := func(sequence int64, issued time.Time, life time.Duration) Fetched {
		predicate := samplePredicate()
		predicate.Sequence, predicate.IssuedAt, predicate.ExpiresAt = sequence, issued, issued.Add(life)
		manifest, err := Compose(sampleDocuments(t), predicate, signer)
		if err != nil {
			t.Fatal(err)
		}
		return Fetched(manifest)
	}
	first := at(1, trusttest.Now, 7*days)
	trust := Trust{Root: root, Runtime: trusttest.Runtime, ClusterUID: testCluster}
	accepted, err := Verify(first, trust, trusttest.Now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	trust.Last = accepted.Accepted
	back := trusttest.Now.Add(90 * days)
	for _, c := range []struct {
		name   string
		bundle Fetched
		now    time.Time
		trust  func(Trust) Trust
		want   refusal.Reason
	}{
		{"the applied bundle has expired", first, back, nil, refusal.Expired},
		{
			"a bundle that an attacker withheld has expired", at(2, trusttest.Now.Add(10*days), 7*days), back, nil,
			refusal.Expired,
		},
		{"the next bundle is accepted", at(3, back, 7*days), back, nil, ""},
		{
			"a bundle with a long validity for slow transport is accepted", at(3, trusttest.Now.Add(days), 90*days),
			back, nil, "",
		},
		{"a stopped clock refuses the bundle", at(3, back, 7*days), trusttest.Now, nil, refusal.NotYetIssued},
		{
			"a stopped clock with a larger clock skew accepts the bundle", at(3, back, 7*days), trusttest.Now,
			func(t Trust) Trust { t.ClockSkew = 91 * days; return t }, "",
		},
		{
			"an expired root accepts no bundle", at(3, trusttest.Now.AddDate(1, 0, 0), 7*days),
			trusttest.Now.AddDate(1, 0, 1), nil, refusal.RootExpired,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			trust := trust
			if c.trust != nil {
				trust = c.trust(trust)
			}
			_, err := Verify(c.bundle, trust, c.now)
			got := refusal.Reason("")
			if refusal := refusal.Of(err); refusal != nil {
				got = refusal.Reason
			}
			if got != c.want {
				t.Errorf("got %q, want %q", err, c.want)
			}
		})
	}
}
