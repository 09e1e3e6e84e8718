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

func TestReportIsSentOnChangeOrAfterInterval(t *testing.T) {
	const interval, poll = time.Hour, time.Minute
	sent := delivery{}.afterAttempt("first", noon, nil)
	failed := sent.afterAttempt("second", noon.Add(10*time.Minute), errors.New("registry is down"))
	require.Equal(t, "first", failed.content, "a failed delivery must not change the last delivered report")
	for name, c := range map[string]struct {
		before  delivery
		message string
		now     time.Time
		want    bool
	}{
		"first report":                          {delivery{}, "first", noon, true},
		"unchanged report within the interval":  {sent, "first", noon.Add(59 * time.Minute), false},
		"unchanged report after the interval":   {sent, "first", noon.Add(time.Hour), true},
		"changed report within the interval":    {sent, "second", noon.Add(time.Second), true},
		"delivery failed recently":              {failed, "second", noon.Add(10*time.Minute + 59*time.Second), false},
		"changed report after a recent failure": {failed, "third", noon.Add(10*time.Minute + time.Second), false},
		"delivery failed one poll interval ago": {failed, "second", noon.Add(11 * time.Minute), true},
	} {
		require.Equal(t, c.want, c.before.isNeeded(c.message, c.now, interval, poll), name)
	}
	require.False(t, failed.afterAttempt("second", noon, nil).failed)
}

func TestUnenrolledAgentAdvisesToEnroll(t *testing.T) {
	by := func(known, kyma string) bundle.Predicate {
		return bundle.Predicate{Audience: bundle.Audience{Runtime: "berlin", KeyThumbprint: known}, KymaUID: kyma}
	}
	good, over := &trust.Token{Expires: noon.Add(time.Hour)}, &trust.Token{Expires: noon.Add(-time.Hour)}
	for name, c := range map[string]struct {
		statement bundle.Predicate
		certified bool
		token     *trust.Token
		want      string // part of the message; empty if no message is expected
	}{
		"bundle contains the agent's key":          {by("mine", "u"), false, nil, ""},
		"agent has a valid token":                  {by("", "u"), false, good, ""},
		"agent has a valid certificate":            {by("", "u"), true, over, ""},
		"bundle published without a control plane": {by("", ""), false, nil, ""},
		"agent's token expired": {
			by("", "u"), false, over,
			"its enrollment token expired at 2026-05-04T11:00:00Z: run `kcp-publisher enroll berlin`",
		},
		"agent has no token": {
			by("", "u"), false, nil, "no enrollment token: run `kcp-publisher enroll berlin`",
		},
		"bundle contains another key and the token expired": {
			by("other", "u"), false, over, "does not contain this agent's key",
		},
		"bundle contains another key and the token is valid": {by("other", "u"), false, good, ""},
	} {
		if got := enrollmentProblem(c.statement, "mine", c.certified, c.token, noon); (got == "") != (c.want == "") ||
			!strings.Contains(got, c.want) {
			t.Errorf("%s: got message %q, want %q", name, got, c.want)
		}
	}
}

func TestMissingBundleHasZeroSettings(t *testing.T) {
	require.Zero(t, bundleSettings(nil).PollInterval)
	b := &bundle.Bundle{}
	b.State.Settings.PollInterval = metav1.Duration{Duration: time.Second}
	require.Equal(t, time.Second, bundleSettings(b).PollInterval.Duration)
}

func TestManifestContentIncludesSourceAndValues(t *testing.T) {
	source, values := digest.FromString("source"), digest.FromString("values")
	for name, c := range map[string]struct {
		raw    string
		config *v1beta2.ImageSpec
		want   []digest.Digest
	}{
		"source only": {`{"ref": "` + source.String() + `"}`, nil, []digest.Digest{source}},
		"source and values": {
			`{"ref": "` + source.String() + `"}`, &v1beta2.ImageSpec{Ref: values.String()},
			[]digest.Digest{source, values},
		},
		"invalid source":             {`[]`, &v1beta2.ImageSpec{Ref: values.String()}, nil},
		"reference without a digest": {`{"ref": "latest"}`, nil, nil},
	} {
		m := &v1beta2.Manifest{
			Spec: v1beta2.ManifestSpec{
				Config:  c.config,
				Install: v1beta2.InstallInfo{Source: runtime.RawExtension{Raw: []byte(c.raw)}},
			},
		}
		require.Equal(t, c.want, contentDigests(m), name)
	}
}

func TestStagedContentsDependOnModuleRepositoryAndDigest(t *testing.T) {
	content := func(module, repository, name string) string {
		m := bundle.Manifest{
			Module:  module,
			Content: []bundle.Content{{Repository: repository, Digest: digest.FromString(name)}},
		}
		return contentsKey(bundle.DesiredState{Manifests: []bundle.Manifest{m}})
	}
	one := content("keda", "example.com/keda", "a")
	require.Equal(t, one, content("keda", "example.com/keda", "a"))
	require.NotEqual(t, one, content("keda", "example.com/keda", "b"))
	require.NotEqual(t, one, content("keda", "example.com/moved", "a"), "another repository must cause a fetch")
	require.NotEqual(t, one, content("nats", "example.com/keda", "a"), "another module must cause a fetch")
	require.NotEqual(t, "", contentsKey(bundle.DesiredState{}), "a bundle without modules must differ from no bundle")
}

func TestFailedImportIsReportedOnce(t *testing.T) {
	a := newAgent(Options{})
	broken := func() []importer.FileResult {
		return []importer.FileResult{{File: "a.tar", Err: errors.New("disk is full")}, {File: "b.tar"}}
	}
	require.Len(t, a.newImportResults(broken()), 2)
	require.Equal(t, []importer.FileResult{{File: "b.tar"}}, a.newImportResults(broken()))
	require.Empty(t, a.newImportResults(nil))
	other := []importer.FileResult{{File: "a.tar", Err: refusal.New(refusal.Rollback, "is older")}}
	require.Len(t, a.newImportResults(other), 1)
}

func TestAgentImageIsPinnedAndMirrored(t *testing.T) {
	pin := "@" + digest.FromString("image").String()
	for name, c := range map[string]struct{ agent, want string }{
		"no image":                       {"", ""},
		"image without a digest":         {"docker.io/kyma/agent:1", ""},
		"image with a digest":            {"ghcr.io/kyma/agent:1" + pin, "ghcr.io/kyma/agent:1" + pin},
		"image from a mirrored registry": {"docker.io/kyma/agent" + pin, "mirror.example/hub/kyma/agent" + pin},
	} {
		settings := bundle.Settings{Agent: c.agent, Mirrors: map[string]string{"docker.io": "mirror.example/hub"}}
		require.Equal(t, c.want, agentImage(settings), name)
	}
}

func TestAgentEnrollsItsKeyAgainIfTheControlPlaneLostIt(t *testing.T) {
	by := func(thumbprint string) *bundle.Bundle {
		b := &bundle.Bundle{}
		b.Statement.Predicate.Audience.KeyThumbprint = thumbprint
		return b
	}
	early := []bundle.RefusedBundle{{Reason: refusal.Expired}}
	lost := append(early, bundle.RefusedBundle{Reason: refusal.WrongCluster})
	for name, c := range map[string]struct {
		facts keyFacts
		want  bool
	}{
		"no bundle yet":                           {keyFacts{}, true},
		"last bundle has no key":                  {keyFacts{current: by("")}, true},
		"last bundle has another key":             {keyFacts{current: by("other")}, true},
		"last bundle has the agent's key":         {keyFacts{current: by("mine"), isConfirmed: true}, false},
		"newer bundle expired":                    {keyFacts{current: by("mine"), isConfirmed: true, refused: early}, false},
		"newer bundle is for another agent":       {keyFacts{current: by("mine"), isConfirmed: true, refused: lost}, true},
		"another agent's bundle, after a restart": {keyFacts{current: by("mine"), refused: lost}, false},
		"second agent":                            {keyFacts{current: by("mine"), twin: "copy"}, true},
		"runtime assigned again":                  {keyFacts{current: by("mine"), isReassigned: true}, true},
	} {
		c.facts.thumbprint = "mine"
		if got := c.facts.mustEnroll(); got != c.want {
			t.Errorf("%s: got enrollment %t, want %t", name, got, c.want)
		}
	}
}
