package scenario

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// refuse creates an admission policy in the runtime, as a tenant could, and waits until it takes effect. The policy
// rejects an object if the CEL expression is false. The returned function removes the policy.
func refuse(t *testing.T, r *fleet.Runtime, group, resources, expression string, tried client.Object) (end func()) {
	t.Helper()
	ctx := t.Context()
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "tenant-" + resources},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				ResourceRules: []admissionv1.NamedRuleWithOperations{
					{RuleWithOperations: admissionv1.RuleWithOperations{
						Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
						Rule: admissionv1.Rule{
							APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resources},
						},
					}}}},
			Validations: []admissionv1.Validation{{Expression: expression, Message: "a tenant does not like it"}},
		}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		}}
	must(t, r.API.Create(ctx, policy))
	must(t, r.API.Create(ctx, binding))
	until(t, 30*time.Second, "the policy takes effect", func() (bool, string) {
		err := r.API.Create(ctx, tried.DeepCopyObject().(client.Object), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "a tenant does not like it"), fmt.Sprint(err)
	})
	return func() {
		t.Helper()
		must(t, r.API.Delete(ctx, binding))
		must(t, r.API.Delete(ctx, policy))
	}
}

// untilBothReport waits until the Kymas in control plane and runtime have a condition with the reason and a message
// that contains all strings.
func untilBothReport(t *testing.T, r *fleet.Runtime, kind, reason string, texts ...string) {
	t.Helper()
	for side, read := range map[string]func() (*v1beta2.Kyma, error){
		"the control plane": func() (*v1beta2.Kyma, error) { return r.Record(t.Context()) },
		"the runtime":       func() (*v1beta2.Kyma, error) { return r.Kyma(t.Context()) },
	} {
		until(t, 30*time.Second, fmt.Sprintf("%s reports %s because of %s", side, kind, reason), func() (bool, string) {
			kyma, err := read()
			if err != nil {
				return false, err.Error()
			}
			c := meta.FindStatusCondition(kyma.Status.Conditions, kind)
			if c == nil {
				return false, "the Kyma has no such condition"
			}
			for _, text := range texts {
				if !strings.Contains(c.Message, text) {
					return false, c.Message
				}
			}
			return c.Reason == reason && len(c.Message) <= bundle.MaxMessageBytes, c.Reason + ": " + c.Message
		})
	}
}

func TestRefusedObjectDoesNotDelayOtherObjects(t *testing.T) {
	suite.Long(t) // the short suite runs TestFailedObjectHasOwnBackoff
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0", "mailer": "1.0.0"})
	template := sample.Scaler("1.9.0").Template()
	template.Namespace = v1beta2.RuntimeNamespace
	end := refuse(t, r, v1beta2.Group, "moduletemplates", "object.metadata.name != 'scaler-1.9.0'", template)
	must(t, f.Offer(ctx, sample.Scaler("1.9.0")))
	// The "fast" channel has version 1.9.0, so the runtime's catalog contains the ModuleTemplate that the policy
	// rejects.
	channels := func(regular string) {
		t.Helper()
		must(t, f.Release(ctx, "scaler", sample.Scaler("").Component(), sample.Channel("regular", regular),
			sample.Channel("fast", "1.9.0")))
	}
	channels("1.7.0")
	untilBothReport(t, r, v1beta2.ConditionSynced, v1beta2.ReasonObjectRefused, "scaler-1.9.0",
		"a tenant does not like it")
	untilBothReport(t, r, v1beta2.ConditionReady, v1beta2.ReasonNotReady, "scaler-1.9.0")

	var polls atomic.Int64
	f.Registry.Intercept(func(_ http.ResponseWriter, req *http.Request) bool {
		if strings.HasSuffix(req.URL.Path, "/runtimes/one/manifests/"+bundle.TagDesired) &&
			req.Method == http.MethodHead {
			polls.Add(1)
		}
		return false
	})
	until(t, 30*time.Second, "the agent has polled 30 times", func() (bool, string) {
		return polls.Load() >= 30, fmt.Sprint(polls.Load())
	})
	f.Registry.Intercept(nil)
	config, err := settings(ctx, r)
	must(t, err)
	must(t, r.API.Delete(ctx, config))
	channels("1.8.0")
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	if _, err := settings(ctx, r); err != nil {
		t.Error(err)
	}
	end()
	untilBothReport(t, r, v1beta2.ConditionSynced, v1beta2.ReasonSynced)
	untilBothReport(t, r, v1beta2.ConditionReady, v1beta2.ReasonReady)

	t.Run("upgrade with a refused Manifest is reported for its module", func(t *testing.T) {
		tried := &v1beta2.Manifest{}
		must(t, r.API.Get(ctx, inKyma("scaler"), tried))
		tried.ObjectMeta, tried.Spec.Version = metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "tried"},
			"2.0.0"
		end := refuse(t, r, v1beta2.Group, "manifests", "object.spec.version != '2.0.0'", tried)
		must(t, f.Offer(ctx, sample.Scaler("2.0.0")))
		promote(t, f, "2.0.0")
		untilBothReport(t, r, v1beta2.ConditionModules, v1beta2.ReasonNotReady, "module scaler",
			"a tenant does not like it")
		must(t, r.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))
		end()
		must(t, r.UntilState(ctx, "scaler", "2.0.0", v1beta2.StateReady))
	})
	t.Run("bundle that cannot be stored is reported", func(t *testing.T) {
		before, err := os.ReadFile(filepath.Join(f.Dir, "one.log"))
		must(t, err)
		none := corev1.ResourceList{"count/secrets": resource.MustParse("0")}
		tenant := metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "tenant"}
		must(t, fleet.SetQuota(ctx, r.API, tenant, none, none))
		until(t, 30*time.Second, "the quota takes effect", func() (bool, string) {
			err := r.API.Create(ctx,
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "one-more"}},
				client.DryRunAll)
			return err != nil && strings.Contains(err.Error(), "quota"), fmt.Sprint(err)
		})
		must(t, f.Offer(ctx, sample.Scaler("2.1.0")))
		promote(t, f, "2.1.0")
		untilBothReport(t, r, v1beta2.ConditionSynced, v1beta2.ReasonStorageRefused, "quota", "kyma-system",
			"allow it to write")
		untilBothReport(t, r, v1beta2.ConditionReady, v1beta2.ReasonNotReady, "quota")
		log, err := os.ReadFile(filepath.Join(f.Dir, "one.log"))
		must(t, err)
		if output := string(log[len(before):]); !strings.Contains(output,
			"failed to store a newer bundle, continuing with the last accepted bundle") ||
			strings.Contains(output, "failed to read bundles") {
			t.Errorf("want a log line about the failed write of the bundle and none about a failed read:\n%s",
				output)
		}
		must(t, r.API.Delete(ctx, &corev1.ResourceQuota{ObjectMeta: tenant}))
		must(t, r.UntilState(ctx, "scaler", "2.1.0", v1beta2.StateReady))
		untilBothReport(t, r, v1beta2.ConditionReady, v1beta2.ReasonReady)
	})
}

// untilBothShow waits until control plane and runtime show a module with the version, the state and all strings.
func untilBothShow(t *testing.T, r *fleet.Runtime, module, version string, state v1beta2.State, texts ...string) {
	t.Helper()
	for side, read := range map[string]func() (*v1beta2.Kyma, error){
		"the control plane": func() (*v1beta2.Kyma, error) { return r.Record(t.Context()) },
		"the runtime":       func() (*v1beta2.Kyma, error) { return r.Kyma(t.Context()) },
	} {
		until(t, 30*time.Second, fmt.Sprintf("%s reports that %s is %s at %s", side, module, state, version),
			func() (bool, string) {
				kyma, err := read()
				if err != nil {
					return false, err.Error()
				}
				for _, m := range kyma.Status.Modules {
					if m.Name == module && m.Version == version && m.State == state &&
						!slices.ContainsFunc(texts,
							func(text string) bool { return !strings.Contains(m.Message, text) }) {
						return true, ""
					}
				}
				return false, fmt.Sprintf("%+v", kyma.Status.Modules)
			})
	}
}

func TestRefusedUpgradeKeepsVersionOrRecreatesObjects(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	deployment := &appsv1.Deployment{}
	must(t, r.API.Get(ctx, inKyma("scaler-manager"), deployment))
	fixed, wrong := scaler(f, "2.0.0"), scaler(f, "1.9.0")
	fixed.Manifest = strings.ReplaceAll(fixed.Manifest, "{app: scaler}", "{app: another}")
	wrong.Manifest = strings.Replace(wrong.Manifest, "level: info", "level: 1", 1)
	must(t, f.Offer(ctx, fixed, wrong))
	drifts := func() {
		t.Helper()
		drift(t, r)
		until(t, 20*time.Second, "drift of the version in force is reverted", func() (bool, string) {
			config, err := settings(ctx, r)
			return err == nil && config.Data["level"] == "info" && config.Data["version"] == "1.7.0",
				fmt.Sprint(config.Data, err)
		})
	}

	promote(t, f, "1.9.0")
	untilBothShow(t, r, f.Own("scaler"), "1.7.0", v1beta2.StateError, "nothing of version 1.9.0 was applied",
		"ConfigMap kyma-system/scaler-settings", "expected string")
	drifts()
	promote(t, f, "2.0.0")
	untilBothShow(t, r, f.Own("scaler"), "1.7.0", v1beta2.StateError, "nothing of version 2.0.0 was applied",
		"spec.selector", v1beta2.AnnotationRecreate)
	drifts()
	promote(t, f, "1.7.0")
	untilBothShow(t, r, f.Own("scaler"), "1.7.0", v1beta2.StateReady)
	untilBothReport(t, r, v1beta2.ConditionReady, v1beta2.ReasonReady)

	template := &v1beta2.ModuleTemplate{}
	must(t, f.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: f.Own("scaler") + "-2.0.0"},
		template))
	before := template.DeepCopy()
	metav1.SetMetaDataAnnotation(&template.ObjectMeta, v1beta2.AnnotationRecreate, v1beta2.True)
	must(t, f.Control.Patch(ctx, template, client.MergeFrom(before)))
	promote(t, f, "2.0.0")
	untilBothShow(t, r, f.Own("scaler"), "2.0.0", v1beta2.StateReady)
	again := &appsv1.Deployment{}
	must(t, r.API.Get(ctx, inKyma("scaler-manager"), again))
	if again.UID == deployment.UID || again.Spec.Selector.MatchLabels["app"] != "another" {
		t.Errorf("the Deployment was not recreated: %v", again.Spec.Selector)
	}
}
