package agent

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/importer"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func TestNextRoundIsTheEarliestReason(t *testing.T) {
	for name, c := range map[string]struct {
		untilPoll time.Duration
		others    []time.Duration
		want      time.Duration
	}{
		"the poll only":               {time.Minute, nil, time.Minute},
		"0 is not a reason":           {time.Minute, []time.Duration{0, 0}, time.Minute},
		"a window that opens earlier": {time.Minute, []time.Duration{0, time.Second, time.Hour}, time.Second},
		"a poll that is overdue":      {-time.Minute, []time.Duration{time.Second}, minRound},
	} {
		require.Equal(t, c.want, nextRound(c.untilPoll, c.others...), name)
	}
}

func TestReportIsSentOnChangeOrAfterInterval(t *testing.T) {
	const interval, poll = time.Hour, time.Minute
	sent := delivery{}.after("first", noon, nil)
	failed := sent.after("second", noon.Add(10*time.Minute), errors.New("registry is down"))
	require.Equal(t, "first", failed.sent, "an undelivered report is still pending")
	for name, c := range map[string]struct {
		before  delivery
		message string
		now     time.Time
		want    bool
	}{
		"nothing was ever sent":         {delivery{}, "first", noon, true},
		"nothing new":                   {sent, "first", noon.Add(59 * time.Minute), false},
		"nothing new for an hour":       {sent, "first", noon.Add(time.Hour), true},
		"something new":                 {sent, "second", noon.Add(time.Second), true},
		"the registry was just down":    {failed, "second", noon.Add(10*time.Minute + 59*time.Second), false},
		"changes do not hurry retries":  {failed, "third", noon.Add(10*time.Minute + time.Second), false},
		"the next poll after it failed": {failed, "second", noon.Add(11 * time.Minute), true},
	} {
		require.Equal(t, c.want, c.before.isNeeded(c.message, c.now, interval, poll), name)
	}
	require.False(t, failed.after("second", noon, nil).down)
}

func TestUnknownAgentLogsAdvice(t *testing.T) {
	by := func(known, kyma string) bundle.Predicate {
		return bundle.Predicate{Audience: bundle.Audience{Runtime: "berlin", KeyThumbprint: known}, KymaUID: kyma}
	}
	good, over := &trust.Token{Expires: noon.Add(time.Hour)}, &trust.Token{Expires: noon.Add(-time.Hour)}
	for name, c := range map[string]struct {
		statement bundle.Predicate
		certified bool
		token     *trust.Token
		want      string // part of it, empty for nothing
	}{
		"its key is known":          {by("mine", "u"), false, nil, ""},
		"it introduces itself":      {by("", "u"), false, good, ""},
		"it has a certificate":      {by("", "u"), true, over, ""},
		"there is no control plane": {by("", ""), false, nil, ""},
		"its token is over": {
			by("", "u"), false, over,
			"the token to introduce it expired at 2026-05-04T11:00:00Z: run `kcp-publisher enroll berlin`",
		},
		"it has no token": {
			by("", "u"), false, nil, "it has no token to enroll with: run `kcp-publisher enroll berlin`",
		},
		"another agent's key is known":    {by("other", "u"), false, over, "does not know this agent's key"},
		"another's is, it can do without": {by("other", "u"), false, good, ""},
	} {
		if got := unenrolled(c.statement, "mine", c.certified, c.token, noon); (got == "") != (c.want == "") ||
			!strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestBundleIntervalsOverrideDefaults(t *testing.T) {
	require.Zero(t, settingsOf(nil).PollInterval)
	b := &bundle.Bundle{}
	b.State.Settings.PollInterval = metav1.Duration{Duration: time.Second}
	require.Equal(t, time.Second, settingsOf(b).PollInterval.Duration)
}

func TestContentThatAManifestNamesIsKept(t *testing.T) {
	source, values := digest.FromString("source"), digest.FromString("values")
	for name, c := range map[string]struct {
		raw    string
		config *v1beta2.ImageSpec
		want   []digest.Digest
	}{
		"its source": {`{"ref": "` + source.String() + `"}`, nil, []digest.Digest{source}},
		"its values too": {
			`{"ref": "` + source.String() + `"}`, &v1beta2.ImageSpec{Ref: values.String()},
			[]digest.Digest{source, values},
		},
		"a source that is none":   {`[]`, &v1beta2.ImageSpec{Ref: values.String()}, nil},
		"a reference by its name": {`{"ref": "latest"}`, nil, nil},
	} {
		m := &v1beta2.Manifest{
			Spec: v1beta2.ManifestSpec{
				Config:  c.config,
				Install: v1beta2.InstallInfo{Source: runtime.RawExtension{Raw: []byte(c.raw)}},
			},
		}
		require.Equal(t, c.want, contentOf(m), name)
	}
}

func TestStagedContentsAreNamedByModuleRepositoryAndDigest(t *testing.T) {
	content := func(module, repository, name string) string {
		m := bundle.Manifest{
			Module:  module,
			Content: []bundle.Content{{Repository: repository, Digest: digest.FromString(name)}},
		}
		return contentsOf(bundle.DesiredState{Manifests: []bundle.Manifest{m}})
	}
	one := content("keda", "example.com/keda", "a")
	require.Equal(t, one, content("keda", "example.com/keda", "a"))
	require.NotEqual(t, one, content("keda", "example.com/keda", "b"))
	require.NotEqual(t, one, content("keda", "example.com/moved", "a"), "it is fetched from elsewhere")
	require.NotEqual(t, one, content("nats", "example.com/keda", "a"), "another module waits for it")
	require.NotEqual(t, "", contentsOf(bundle.DesiredState{}), "a bundle without modules is staged too")
}

func TestFailedImportIsReportedOnce(t *testing.T) {
	a := New(Options{})
	broken := func() []importer.Taken {
		return []importer.Taken{{File: "a.tar", Err: errors.New("disk is full")}, {File: "b.tar"}}
	}
	require.Len(t, a.importNews(broken()), 2)
	require.Equal(t, []importer.Taken{{File: "b.tar"}}, a.importNews(broken()))
	require.Empty(t, a.importNews(nil))
	other := []importer.Taken{{File: "a.tar", Err: refusal.New(refusal.Rollback, "is older")}}
	require.Len(t, a.importNews(other), 1)
}

func TestAgentImageIsPinnedAndMirrored(t *testing.T) {
	pin := "@" + digest.FromString("image").String()
	for name, c := range map[string]struct{ agent, want string }{
		"none":          {"", ""},
		"not pinned":    {"docker.io/kyma/agent:1", ""},
		"pinned":        {"ghcr.io/kyma/agent:1" + pin, "ghcr.io/kyma/agent:1" + pin},
		"from a mirror": {"docker.io/kyma/agent" + pin, "mirror.example/hub/kyma/agent" + pin},
	} {
		settings := bundle.Settings{Agent: c.agent, Mirrors: map[string]string{"docker.io": "mirror.example/hub"}}
		require.Equal(t, c.want, agentImage(settings), name)
	}
}

func TestAgentEnrollsAgainAtARebuiltControlPlane(t *testing.T) {
	by := func(thumbprint string) *bundle.Bundle {
		b := &bundle.Bundle{}
		b.Statement.Predicate.Audience.KeyThumbprint = thumbprint
		return b
	}
	for name, c := range map[string]struct {
		inForce *bundle.Bundle
		refused []bundle.RefusedBundle
		want    bool
	}{
		"there is no bundle yet":           {nil, nil, false},
		"the bundle in force names no key": {by(""), nil, false},
		"it names another":                 {by("other"), nil, false},
		"it names this one":                {by("mine"), nil, true},
		"a newer one is another agent's": {
			by("mine"), []bundle.RefusedBundle{{Reason: refusal.Expired}, {Reason: refusal.WrongCluster}}, false,
		},
		"a newer one was refused for its expiry": {by("mine"), []bundle.RefusedBundle{{Reason: refusal.Expired}}, true},
	} {
		if got := known(c.inForce, "mine", c.refused); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
