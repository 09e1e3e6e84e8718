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
		"its own report":                             {own, own, nil, ""},
		"before its first report":                    {"", other, accepted("before", 9), ""},
		"an empty registry":                          {own, "", nil, ""},
		"a newer report of another instance":         {own, other, accepted("copy", 6), "copy"},
		"a newer report without an instance":         {own, other, accepted("", 6), "unknown"},
		"a registry that was restored":               {own, other, accepted("before", 4), ""},
		"a report that this key did not sign":        {own, other, nil, ""},
		"its own report in other bytes":              {own, other, accepted("mine", 6), ""},
		"a report of another instance that is equal": {own, other, accepted("copy", 5), ""},
	} {
		found := twins{own: c.own, reads: confirmingLooks}
		require.Equal(t, c.twin != "", found.found(c.newest, c.report, "mine", 5), name)
		require.Equal(t, c.twin, found.twin, name)
		require.Equal(t, c.twin == "", found.confirmed(), name)
	}
}
