package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

func TestModuleIsInstalledUpgradedPrunedAndRemoved(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{AgentRights: []string{"agent.yaml", "all-modules.yaml"}})
	one := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0", "mailer": "1.0.0"})
	two := runtimeWith(t, f, "two", map[string]string{"scaler": "1.7.0", "mailer": "1.0.0"})

	t.Run("runtimes with equal modules share content", func(t *testing.T) {
		configs := map[string]bool{}
		for _, r := range []*fleet.Runtime{one, two} {
			fetched, err := r.Desired(ctx)
			must(t, err)
			configs[configDigest(t, fetched)] = true
		}
		if len(configs) != 1 {
			t.Errorf("two runtimes have %d desired states, want 1", len(configs))
		}
	})
	t.Run("control plane and runtime show the module", func(t *testing.T) {
		own, err := one.Kyma(ctx)
		must(t, err)
		if own.Status.State != v1beta2.StateReady || own.Spec.Channel != "regular" {
			t.Errorf("the runtime's Kyma has state %s and channel %s", own.Status.State, own.Spec.Channel)
		}
		until(t, 20*time.Second, "the control plane's Kyma is Ready with all conditions", func() (bool, string) {
			record, err := one.Record(ctx)
			if err != nil {
				return false, err.Error()
			}
			for _, c := range record.Status.Conditions {
				if c.Status != metav1.ConditionTrue {
					return false, c.Type + ": " + c.Message
				}
			}
			observed := record.Status.Runtime.Observed
			return record.Status.State == v1beta2.StateReady && observed != nil &&
					observed.Digest == record.Status.Runtime.Published.Digest &&
					observed.KubernetesVersion == "v1.36.3" && record.Status.LastOperation != nil,
				fmt.Sprint(record.Status.State)
		})
	})
	t.Run("catalog and default CR exist", func(t *testing.T) {
		must(t, one.API.Get(ctx, inKyma("scaler-1.7.0"), &v1beta2.ModuleTemplate{}))
		must(t, one.API.Get(ctx, inKyma("scaler"), &v1beta2.ModuleReleaseMeta{}))
		must(t, one.API.Get(ctx, inKyma("default"), scalerCR()))
	})
	t.Run("promotion upgrades and prunes", func(t *testing.T) {
		promote(t, f, "1.8.0")
		must(t, one.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
		must(t, two.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
		until(t, 20*time.Second, "the PriorityClass is pruned", func() (bool, string) {
			err := one.API.Get(ctx, client.ObjectKey{Name: "scaler-priority"}, &schedulingv1.PriorityClass{})
			return apierrors.IsNotFound(err), fmt.Sprint(err)
		})
	})
	t.Run("admin removes a module", func(t *testing.T) {
		must(t, one.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
			spec.Modules = slices.DeleteFunc(spec.Modules, func(m v1beta2.Module) bool { return m.Name == "scaler" })
		}))
		must(t, one.UntilGone(ctx, "scaler"))
		for _, object := range []client.Object{
			&appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "scaler-manager"},
			},
		} {
			if err := one.API.Get(ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
				t.Errorf("%s still exists: %v", object.GetName(), err)
			}
		}
		must(t, one.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))
		must(t, two.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	})
}

func scalerCR() *unstructured.Unstructured {
	cr := &unstructured.Unstructured{}
	cr.SetGroupVersionKind(schema.GroupVersionKind{Group: "sample.kyma-pull.dev", Version: "v1", Kind: "Scaler"})
	return cr
}

func TestAgentCorrectsOwnedFieldsAndKeepsOthers(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})

	config, err := settings(ctx, r)
	must(t, err)
	before := config.DeepCopy()
	config.Data["level"], config.Data["added-by-a-person"] = "debug", "yes"
	config.Annotations["a-person"] = "was here"
	must(t, r.API.Patch(ctx, config, client.MergeFrom(before)))
	until(t, 20*time.Second, "the agent restores its own field and keeps the user's fields", func() (bool, string) {
		config, err := settings(ctx, r)
		return err == nil && config.Data["level"] == "info" && config.Data["added-by-a-person"] == "yes" &&
			config.Annotations["a-person"] != "", fmt.Sprint(config.Data, err)
	})

	deployment := &appsv1.Deployment{}
	must(t, r.API.Get(ctx, inKyma("scaler-manager"), deployment))
	must(t, r.API.Delete(ctx, deployment))
	until(t, 20*time.Second, "the deleted Deployment is recreated and ready", func() (bool, string) {
		again := &appsv1.Deployment{}
		err := r.API.Get(ctx, inKyma("scaler-manager"), again)
		return err == nil && again.UID != deployment.UID && again.Status.ReadyReplicas == 1,
			fmt.Sprint(err, again.Status)
	})

	cr := scalerCR()
	cr.SetNamespace(v1beta2.RuntimeNamespace)
	cr.SetName("default")
	change(t, r.API, cr, func(cr *unstructured.Unstructured) {
		must(t, unstructured.SetNestedField(cr.Object, int64(5), "spec", "interval"))
	})
	drift(t, r) // once the agent has corrected this drift, it has also processed the edit
	until(t, 20*time.Second, "the agent restores the setting", func() (bool, string) {
		config, err := settings(ctx, r)
		return err == nil && config.Data["level"] == "info", fmt.Sprint(config.Data, err)
	})
	must(t, r.API.Get(ctx, inKyma("default"), cr))
	if interval, _, _ := unstructured.NestedInt64(cr.Object, "spec", "interval"); interval != 5 {
		t.Errorf("the user's edit of the default CR was overwritten: interval is %d", interval)
	}
}

func TestModuleRemovalWaitsForUserCRs(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	must(t, r.API.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
	mine := scalerCR()
	mine.SetNamespace("shop")
	mine.SetName("mine")
	must(t, r.API.Create(ctx, mine))
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Modules = nil }))
	until(t, 30*time.Second, "the status names the CR that blocks the removal", func() (bool, string) {
		record, err := r.Record(ctx)
		if err != nil {
			return false, err.Error()
		}
		for _, m := range record.Status.Modules {
			if m.Name == f.Own("scaler") && m.State == v1beta2.StateWarning && strings.Contains(m.Message, "mine") {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%+v", record.Status.Modules)
	})
	must(t, r.API.Get(ctx, inKyma("scaler-manager"), &appsv1.Deployment{}))
	must(t, r.API.Delete(ctx, mine))
	must(t, r.UntilGone(ctx, f.Own("scaler")))
}

func TestUnmanagedModuleCanBecomeManagedAgain(t *testing.T) {
	suite.Long(t) // the short suite runs TestUnmanagedModuleIsMarkedBeforeManifestIsDeleted
	ctx := t.Context()
	f := shareFleet(t)
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	manage := func(managed bool) {
		must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Modules[0].Managed = managed }))
	}
	manage(false)
	must(t, r.UntilState(ctx, f.Own("scaler"), "1.7.0", v1beta2.StateUnmanaged))
	until(t, 20*time.Second, "the Manifest is deleted", func() (bool, string) {
		err := r.API.Get(ctx, inKyma(f.Own("scaler")), &v1beta2.Manifest{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	must(t, r.API.Get(ctx, inKyma("scaler-manager"), &appsv1.Deployment{}))
	manage(true)
	must(t, r.UntilState(ctx, f.Own("scaler"), "1.7.0", v1beta2.StateReady))
}

func TestSilentRuntimeIsNotReadyUntilItReports(t *testing.T) {
	suite.Long(t) // the short suite runs TestSilentRuntimeDoesNotBlockKymaDeletion and TestRestartKeepsReportTimes
	ctx := t.Context()
	f := newFleet(t, fleet.Options{Silence: 15 * time.Second})
	r := runtimeWith(t, f, "one", map[string]string{"mailer": "1.0.0"})
	reporting := func(status metav1.ConditionStatus, ready bool) {
		until(t, 40*time.Second, fmt.Sprintf("Reporting=%s, Ready %v", status, ready), func() (bool, string) {
			record, err := r.Record(ctx)
			if err != nil {
				return false, err.Error()
			}
			for _, c := range record.Status.Conditions {
				if c.Type == v1beta2.ConditionReporting {
					return c.Status == status && (record.Status.State == v1beta2.StateReady) == ready, c.Message
				}
			}
			return false, "no condition"
		})
	}
	reporting(metav1.ConditionTrue, true)
	// The publisher does not update the status for each report, and the runtime still does not count as silent.
	untilHeartbeats(t, f, r.ID, 9)
	record, err := r.Record(ctx)
	must(t, err)
	since := meta.FindStatusCondition(record.Status.Conditions, v1beta2.ConditionReporting).LastTransitionTime
	must(t, f.Publisher().Stop())
	must(t, f.StartPublisher())
	untilHeartbeats(t, f, r.ID, 1)
	record, err = r.Record(ctx)
	must(t, err)
	if condition := meta.FindStatusCondition(record.Status.Conditions,
		v1beta2.ConditionReporting); condition.LastTransitionTime != since || condition.Status != metav1.ConditionTrue {
		t.Errorf("a restart changed the condition Reporting: %+v", condition)
	}
	r.Agent().Stop()
	must(t, f.Publisher().Stop())
	must(t, f.StartPublisher())
	reporting(metav1.ConditionFalse, false)
	must(t, r.StartAgent())
	reporting(metav1.ConditionTrue, true)
}

func configDigest(t *testing.T, fetched bundle.Fetched) string {
	t.Helper()
	manifest := decodeManifest(t, fetched.Bytes)
	return manifest.Config.Digest.String()
}
