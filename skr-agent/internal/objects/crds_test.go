package objects

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestEstablishedCRDIsDetectedByItsConditions(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want bool
	}{
		"CRD without a status":       {"metadata: {name: a}", false},
		"conditions are null":        {"status: {conditions: null, storedVersions: [v1]}", false},
		"only NamesAccepted is True": {"status: {conditions: [{type: NamesAccepted, status: 'True'}]}", false},
		"Established is False":       {"status: {conditions: [{type: Established, status: 'False'}]}", false},
		"Established is True": {
			"status: {conditions: [{type: NamesAccepted, status: 'True'}, {type: Established, status: 'True'}]}", true,
		},
	} {
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(c.text), &crd.Object); err != nil {
			t.Fatal(err)
		}
		if got := IsEstablished(crd); got != c.want {
			t.Errorf("%s: got IsEstablished %t, want %t", name, got, c.want)
		}
	}
}
