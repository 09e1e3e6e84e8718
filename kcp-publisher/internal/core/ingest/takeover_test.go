package ingest

import (
	"slices"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestTakeoverReportAppliesOnlyToLatestBundle(t *testing.T) {
	objects := []v1beta2.Resource{{Name: "keda"}}
	service := bundle.ObjectRef{Version: "v1", Kind: "Service", Namespace: "kyma-system", Name: "skr-webhook"}
	for name, c := range map[string]struct {
		published bundle.TakeoverPhase
		reported  *bundle.ReportedTakeover
		stale     bool
		adopted   []string
		done      string
		removed   []string
	}{
		"report without a takeover": {published: bundle.TakeoverAdopt},
		"adopted module": {published: bundle.TakeoverAdopt, reported: &bundle.ReportedTakeover{
			Phase: bundle.TakeoverAdopt, Adopted: []string{"keda"},
		},
			adopted: []string{"keda", "mail"}}, // no objects are recorded for mail
		"all modules adopted": {
			published: bundle.TakeoverAdopt,
			reported:  &bundle.ReportedTakeover{Phase: bundle.TakeoverAdopt, Adopted: []string{"keda"}, Done: true},
			adopted:   []string{"keda", "mail"}, done: "adopt",
		},
		"report about another bundle": {
			published: bundle.TakeoverAdopt,
			reported:  &bundle.ReportedTakeover{Phase: bundle.TakeoverAdopt, Adopted: []string{"keda"}, Done: true},
			stale:     true,
		},
		"report about another phase": {
			published: bundle.TakeoverRelease, reported: &bundle.ReportedTakeover{Phase: bundle.TakeoverClean,
				Done: true},
		},
		"leftovers removed": {
			published: bundle.TakeoverClean,
			reported: &bundle.ReportedTakeover{Phase: bundle.TakeoverClean, Done: true,
				Removed: []bundle.ObjectRef{service}}, adopted: []string{"mail"}, done: "clean",
			removed: []string{"Service kyma-system/skr-webhook"},
		},
		"leftovers of lifecycle-manager not removed": {
			published: bundle.TakeoverClean,
			reported:  &bundle.ReportedTakeover{Phase: bundle.TakeoverClean, Message: "forbidden"},
			adopted:   []string{"mail"},
		},
		"modules released": {
			published: bundle.TakeoverRelease,
			reported:  &bundle.ReportedTakeover{Phase: bundle.TakeoverRelease, Done: true}, adopted: []string{"mail"},
			done: "release",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy()
			s.facts.Report.Takeover = c.reported
			status := s.before
			status.Runtime = &v1beta2.RuntimeStatus{
				Takeover: &v1beta2.TakeoverStatus{
					Modules: []v1beta2.InheritedModule{{Name: "keda", Objects: objects}, {Name: "mail"}},
				},
			}
			s.facts.Published.State.Takeover = c.published
			status = NextStatus(status, s.facts, noon)
			if c.stale {
				s.facts.Report.Observed.Digest = earlier
			}
			RecordReport(&status, *s.facts.Report, "key", "thumbprint", noon)
			got := status.Runtime.Takeover
			var adopted []string
			for _, m := range got.Modules {
				if m.Adopted {
					adopted = append(adopted, m.Name)
				}
				if m.Adopted && len(m.Objects) > 0 {
					t.Errorf("the objects of adopted module %s are still recorded", m.Name)
				}
			}
			if !slices.Equal(adopted, c.adopted) || got.Done != c.done || !slices.Equal(got.Removed, c.removed) {
				t.Errorf("got %+v, want adopted %v, done %q, removed %v", got, c.adopted, c.done, c.removed)
			}
			if c.reported != nil && c.reported.Message != "" && got.Message != c.reported.Message {
				t.Errorf("got message %q, want %q", got.Message, c.reported.Message)
			}
		})
	}
}
