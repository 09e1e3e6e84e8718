package agent

import (
	"testing"
	"time"

	"filippo.io/age"
	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/report"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/pull"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/secrets"
)

func TestAgentDetectsItsClone(t *testing.T) {
	own, other := digest.FromString("own"), digest.FromString("other")
	accepted := func(instance string, sequence int64) *bundle.AcceptedReport {
		return &bundle.AcceptedReport{Report: bundle.Report{Instance: instance, Sequence: sequence}}
	}
	for name, c := range map[string]struct {
		own, newest digest.Digest
		report      *bundle.AcceptedReport
		twin        string
	}{
		"agent's own report": {own, own, nil, ""},
		"report of another process before the first report": {"", other, accepted("before", 9), ""},
		"no report in the registry":                         {own, "", nil, ""},
		"newer report of another instance":                  {own, other, accepted("copy", 6), "copy"},
		"newer report without an instance":                  {own, other, accepted("", 6), "unknown"},
		"older report in a restored registry":               {own, other, accepted("before", 4), ""},
		"report with the signature of another key":          {own, other, nil, ""},
		"agent's own report with a different digest":        {own, other, accepted("mine", 6), ""},
		"report of another instance with equal sequence":    {own, other, accepted("copy", 5), ""},
	} {
		found := twinDetector{ownReport: c.own, confirmations: confirmingPolls}
		require.Equal(t, c.twin != "", found.detectTwin(c.newest, c.report, "mine", 5), name)
		require.Equal(t, c.twin, found.twin, name)
		require.Equal(t, c.twin == "", found.isConfirmed(), name)
	}
}

// Notifications can cause polls at any time, so only polls one interval apart count. Within that interval, a second
// agent would have replaced the report.
func TestPollsConfirmTheAgentOncePerInterval(t *testing.T) {
	const interval = 10 * time.Second
	start := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		delays    []time.Duration
		confirmed bool
	}{
		"three polls at once":           {[]time.Duration{0, 0, 0}, false},
		"many polls within an interval": {[]time.Duration{time.Second, time.Second, time.Second, time.Second}, false},
		"two intervals":                 {[]time.Duration{interval, interval}, false},
		"three intervals":               {[]time.Duration{interval, interval, interval}, true},
		"shortened intervals":           {[]time.Duration{interval - time.Second, interval - time.Second, interval}, true},
		"additional polls": {
			[]time.Duration{interval, time.Second, interval - time.Second, time.Second, interval - time.Second}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			found, now := twinDetector{}, start
			found.recordReport(digest.FromString("own"), now)
			for _, delay := range c.delays {
				now = now.Add(delay)
				found.recordPoll(now, interval)
			}
			require.Equal(t, c.confirmed, found.isConfirmed())
		})
	}
}

// While a cluster's agents are down, a copy of the cluster can become the only one with a running agent, and its admin
// can remove modules.
func TestAgentAcceptsNoBundlesAfterReportFromUnknownAgent(t *testing.T) {
	const saved = 5
	for name, c := range map[string]struct {
		instance, reporter string
		sequence           int64
		holds              bool
	}{
		"last report of this cluster":         {"before", "before", 9, false},
		"report of a copy":                    {"copy", "before", 9, true},
		"older report in a restored registry": {"copy", "before", 4, false},
		"report of an older agent version":    {"", "before", 9, false},
		"state of an older agent version":     {"copy", "", 9, false},
		"restart before the confirmation":     {"before", pull.UnconfirmedReporter, saved, true},
		"restart, and the report was lost":    {"", pull.UnconfirmedReporter, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			found, now := twinDetector{}, trusttest.Now
			last := bundle.AcceptedReport{Report: bundle.Report{Instance: c.instance, Sequence: c.sequence}}
			found.recordStart(last, c.reporter, saved)
			require.Equal(t, c.holds, found.holdsBundles())
			found.recordReport(digest.FromString("own"), now)
			for range confirmingPolls {
				require.Equal(t, c.holds, found.holdsBundles())
				now = now.Add(time.Minute)
				found.recordPoll(now, time.Minute)
			}
			require.False(t, found.holdsBundles(), "a confirmed agent must accept bundles")
		})
	}
}

// Another agent's report can be in the registry if this agent cannot read it.
func TestAgentAcceptsNoBundlesAfterUnreadReport(t *testing.T) {
	for reporter, holds := range map[string]bool{"": false, "before": true, pull.UnconfirmedReporter: true} {
		found := twinDetector{}
		found.recordUnreadStart(reporter)
		require.Equal(t, holds, found.holdsBundles(), reporter)
		found.recordReport(digest.FromString("own"), trusttest.Now)
		found.recordStart(bundle.AcceptedReport{Report: bundle.Report{Instance: "own", Sequence: 9}}, reporter, 5)
		require.Equal(t, holds, found.holdsBundles(), reporter)
	}
	found := twinDetector{}
	found.recordUnreadStart("before")
	found.recordStart(bundle.AcceptedReport{Report: bundle.Report{Instance: "before", Sequence: 9}}, "before", 5)
	require.False(t, found.holdsBundles(), "the report could be read before the first own report")
}

// One of the two agents uses sequence numbers that are ahead of the clock, for example because it has skipped reserved
// numbers.
func TestControlPlaneDetectsTwoAgentsWithOneKey(t *testing.T) {
	key, place := trusttest.NewSigner(t), store.NewMemory()
	public, err := key.PublicKey()
	require.NoError(t, err)
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	now := trusttest.Now
	clock := func() time.Time { return now }
	started := func(instance string, ahead time.Duration) *Agent {
		a := newAgent(Options{
			Runtime: trusttest.Runtime, Signer: key, Now: clock, Secrets: &secrets.Reconciler{Identity: identity},
			Instance: instance, Client: discardClient{}, Puller: pull.New(pull.Options{
				ConfiguredLocation: place, Client: discardClient{}, Now: clock,
				Store: contentstore.New(discardClient{}, discardClient{}, "kyma-system"),
				Trust: bundle.Trust{Root: trusttest.RootFor(t, trusttest.NewSigner(t)), Runtime: trusttest.Runtime},
			}),
		})
		a.sequence, a.hasResumed = now.Add(ahead).UnixMilli(), true
		return a
	}
	for name, ahead := range map[string][2]time.Duration{
		"copy is ahead":     {0, time.Minute},
		"original is ahead": {time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			agents := []*Agent{started("original", ahead[0]), started("copy", ahead[1])}
			last, twin := int64(0), ""
			for round := range 4 {
				a := agents[round%2]
				now = now.Add(time.Second)
				a.checkForTwin(t.Context(), logr.Discard(), true)
				a.sendReport(t.Context(), logr.Discard(), report.Facts{})
				repository, err := place.Reading(t.Context(), bundle.ReportRepository(trusttest.Runtime))
				require.NoError(t, err)
				fetched, err := store.Fetch(t.Context(), repository, bundle.TagLatest)
				require.NoError(t, err)
				accepted, err := bundle.VerifyReport(fetched, bundle.Reporter{
					Runtime: trusttest.Runtime, Key: public, LastSequence: last, Now: now,
				})
				if err == nil {
					last, twin = accepted.Sequence, accepted.Twin
				}
			}
			require.NotEmpty(t, twin, "the control plane must learn that two agents report")
		})
	}
}
