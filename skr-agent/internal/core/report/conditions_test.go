package report

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestCatalogConditionDependsOnTheAcceptedBundle(t *testing.T) {
	const written = "True Ready: the catalog of the last accepted bundle is written"
	for name, c := range map[string]struct {
		facts Facts
		want  string
	}{
		"no bundle accepted": {Facts{}, "False NotReady: no bundle was accepted yet"},
		"bundle lost":        {Facts{LostBundle: "bundle 7 was lost"}, "False NotReady: bundle 7 was lost"},
		"bundle accepted":    {Facts{Bundle: &bundle.Bundle{}}, written},
		"refused catalog object": {
			Facts{Bundle: &bundle.Bundle{}, Trouble: &bundle.ReportedTrouble{Catalog: true, Message: "denied"}},
			"False ObjectRefused: failed to write some catalog objects of the last accepted bundle: denied",
		},
		"refused object outside of the catalog": {
			Facts{Bundle: &bundle.Bundle{}, Trouble: &bundle.ReportedTrouble{Message: "denied"}}, written,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.facts.Kyma = &v1beta2.Kyma{}
			status := KymaStatus(v1beta2.KymaStatus{}, c.facts, time.Unix(0, 0))
			got := meta.FindStatusCondition(status.Conditions, v1beta2.ConditionModuleCatalog)
			if text := string(got.Status) + " " + got.Reason + ": " + got.Message; text != c.want {
				t.Errorf("got condition %q, want %q", text, c.want)
			}
		})
	}
}
