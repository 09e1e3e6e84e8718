package train

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// A train considers only the ModuleTemplates that a lookup of the version would use. Otherwise, the author of another
// module could stop the train with a ModuleTemplate that has a similar name.
func TestForeignModuleTemplateDoesNotStopATrain(t *testing.T) {
	foreign := v1beta2.ModuleTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: module + "-1.8.0"},
		Spec:       v1beta2.ModuleTemplateSpec{ModuleName: "serverless"},
	}
	own := template("1.8.0")
	own.Name = "release-of-keda"
	byName := template("1.8.0")
	byName.Spec.ModuleName, byName.Spec.Version = "", ""
	for name, c := range map[string]struct {
		templates []v1beta2.ModuleTemplate
		reason    fleet.WaitReason
	}{
		"template of another module with the version's name": {
			[]v1beta2.ModuleTemplate{template("1.7.0"), own, foreign}, fleet.WaitDue,
		},
		"template that has only the version's name": {
			[]v1beta2.ModuleTemplate{template("1.7.0"), byName}, fleet.WaitDue,
		},
		"two templates of the version": {
			[]v1beta2.ModuleTemplate{template("1.7.0"), own, template("1.8.0")}, fleet.WaitTemplateMissing,
		},
	} {
		in := due()
		in.Templates = c.templates
		out := Plan(in)[0]
		if got := entry(t, out, "fast"); got.Reason != c.reason {
			t.Errorf("%s: got reason %s (%s), want %s", name, got.Reason, got.Message, c.reason)
		}
	}
}
