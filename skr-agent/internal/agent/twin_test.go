package agent

import (
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/bundle"
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
		"agent's own report with another digest":            {own, other, accepted("mine", 6), ""},
		"report of another instance with equal sequence":    {own, other, accepted("copy", 5), ""},
	} {
		found := twinDetector{ownReport: c.own, confirmations: confirmingPolls}
		require.Equal(t, c.twin != "", found.detectTwin(c.newest, c.report, "mine", 5), name)
		require.Equal(t, c.twin, found.twin, name)
		require.Equal(t, c.twin == "", found.isConfirmed(), name)
	}
}
