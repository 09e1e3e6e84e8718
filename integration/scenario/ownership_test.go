package scenario

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// attackerKyma returns a Kyma in which an attacker names another Kyma's runtime and sets an agent image.
func attackerKyma(f *fleet.Fleet, name, runtime string) *v1beta2.Kyma {
	kyma := fleet.NewKyma(f.Own(name), "regular")
	kyma.Labels[v1beta2.LabelRuntimeID] = runtime
	kyma.Annotations = map[string]string{
		v1beta2.AnnotationAgentImage: "evil.example/agent@sha256:" + strings.Repeat("0", 64),
	}
	return kyma
}

// mustRun runs kcp-publisher and returns its output.
func mustRun(t *testing.T, f *fleet.Fleet, args ...string) string {
	t.Helper()
	output, code := fleet.Run(t.Context(), f.Binaries().Publisher, args...)
	if code != 0 {
		t.Fatalf("kcp-publisher %s: exit code %d\n%s", strings.Join(args, " "), code, output)
	}
	return output
}

// wantNoAttackerImage checks that the runtime's bundle does not have the attacker's agent image.
func wantNoAttackerImage(t *testing.T, f *fleet.Fleet, r *fleet.Runtime) {
	t.Helper()
	state := desiredState(t, f, r)
	if strings.Contains(state.Settings.Agent, "evil.example") {
		t.Fatalf("the bundle of %s has the agent image %s", r.ID, state.Settings.Agent)
	}
}

// A user with write access to one Kyma must never take over another Kyma's runtime. The test tries this before the
// runtime enrolls, after its Kyma is deleted, and after the control plane is rebuilt. Only an operator can assign the
// runtime, with `kcp-publisher move`.
func TestOperatorDecidesWhichKymaOwnsARuntime(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)

	t.Log("An older Kyma names a runtime that has not enrolled: the token decides.")
	early := attackerKyma(f, "mallory-early", f.Own("fresh"))
	must(t, f.CreateKyma(ctx, early))
	untilReadyBecause(t, f, early.Name, v1beta2.StateProcessing, "")
	fresh := runtimeWith(t, f, "fresh", map[string]string{"mailer": "1.0.0"})
	untilReadyBecause(t, f, fresh.ID, v1beta2.StateReady, "all modules are ready")
	untilReadyBecause(t, f, early.Name, v1beta2.StateError, "already belongs to Kyma kcp-system/"+fresh.ID)
	wantNoAttackerImage(t, f, fresh)

	t.Log("The runtime moves to a Kyma with another name, and no module is removed.")
	manifest := &v1beta2.Manifest{}
	at := client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: f.Own("mailer")}
	must(t, fresh.API.Get(ctx, at, manifest))
	moved := f.Own("fresh-2")
	mustRun(t, f, "move", fresh.ID, "--to", moved, "--keys", f.Keys(), "--kubeconfig",
		filepath.Join(f.Dir, "kcp.kubeconfig"), "--namespace", sample.Namespace)
	untilReadyBecause(t, f, moved, v1beta2.StateReady, "all modules are ready")
	until(t, 30*time.Second, "the former Kyma is deleted", func() (bool, string) {
		err := f.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: fresh.ID}, &v1beta2.Kyma{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	after := &v1beta2.Manifest{}
	must(t, fresh.API.Get(ctx, at, after))
	if after.UID != manifest.UID || !after.DeletionTimestamp.IsZero() {
		t.Error("the module was removed")
	}
	untilReadyBecause(t, f, early.Name, v1beta2.StateError, "")
	wantNoAttackerImage(t, f, fresh)

	t.Log("The owner is deleted without a last bundle, as in a rebuilt control plane. The other Kyma does not get " +
		"the runtime.")
	record := &v1beta2.Kyma{}
	record.Namespace, record.Name = sample.Namespace, moved
	change(t, f.Control, record, func(k *v1beta2.Kyma) {
		k.Annotations = map[string]string{v1beta2.AnnotationMovedAway: v1beta2.True}
	})
	must(t, f.Control.Delete(ctx, record))
	until(t, 30*time.Second, "the owning Kyma is deleted", func() (bool, string) {
		err := f.Control.Get(ctx, client.ObjectKeyFromObject(record), record)
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	late := attackerKyma(f, "aaa", fresh.ID)
	must(t, f.CreateKyma(ctx, late))
	untilReadyBecause(t, f, late.Name, v1beta2.StateError, "no operator has assigned the runtime")
	untilReadyBecause(t, f, early.Name, v1beta2.StateError, "no operator has assigned the runtime")
	must(t, f.Control.Delete(ctx, early))
	untilReadyBecause(t, f, late.Name, v1beta2.StateError, "no operator has assigned the runtime")
	wantNoAttackerImage(t, f, fresh)

	t.Log("The Kyma is created again and an operator assigns the runtime.")
	again := fleet.NewKyma(moved, "regular", f.Own("mailer"))
	again.Labels[v1beta2.LabelRuntimeID] = fresh.ID
	must(t, f.CreateKyma(ctx, again))
	untilReadyBecause(t, f, moved, v1beta2.StateError, "no operator has assigned the runtime")
	mustRun(t, f, "move", fresh.ID, "--to", moved, "--keep", "--keys", f.Keys(), "--kubeconfig",
		filepath.Join(f.Dir, "kcp.kubeconfig"), "--namespace", sample.Namespace)
	untilReadyBecause(t, f, moved, v1beta2.StateReady, "all modules are ready")
	must(t, fresh.API.Get(ctx, at, after))
	if after.UID != manifest.UID || !after.DeletionTimestamp.IsZero() {
		t.Error("the module was removed")
	}
	wantNoAttackerImage(t, f, fresh)

	t.Log("The runtime is released and assigned again: first to the same Kyma, then to a new one.")
	move := func(args ...string) {
		t.Helper()
		at := []string{"--kubeconfig", filepath.Join(f.Dir, "kcp.kubeconfig"), "--namespace", sample.Namespace}
		mustRun(t, f, slices.Concat([]string{"move", fresh.ID, "--keep"}, at, args)...)
	}
	released := moved
	for _, to := range []string{moved, f.Own("fresh-3")} {
		move("--away")
		untilReadyBecause(t, f, released, v1beta2.StateError, "was released to another control plane")
		move("--to", to, "--keys", f.Keys())
		untilReadyBecause(t, f, to, v1beta2.StateReady, "all modules are ready")
		released = to
	}
	must(t, fresh.API.Get(ctx, at, after))
	if after.UID != manifest.UID || !after.DeletionTimestamp.IsZero() {
		t.Error("the module was removed")
	}
}

// A second cluster has the same Secrets and UID as the first one, as if both were restored from one snapshot.
func TestClonedRuntimeDoesNotRemoveModulesFromOriginal(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	original := runtimeWith(t, f, "original", map[string]string{"mailer": "1.0.0"})
	untilQuiet(t, f)
	report := reportAsCopy(t, f, original)

	t.Log("The admin of the copy removes all modules there.")
	report()
	until(t, time.Minute, "the publisher detects the copy", func() (bool, string) {
		kyma, err := original.Record(ctx)
		if err != nil {
			return false, err.Error()
		}
		s := kyma.Status.Runtime
		return s.Agent != nil && s.Agent.Clone != "" && s.Reasons != nil && s.Reasons.Publish == "CloneDetected",
			fmt.Sprintf("%+v", s.Agent)
	})
	kyma := &v1beta2.Kyma{}
	until(t, time.Minute, "the agent detects the copy", func() (bool, string) {
		report() // the original can replace a single report without reading it
		err := original.API.Get(ctx,
			client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: v1beta2.RuntimeKymaName}, kyma)
		for _, c := range kyma.Status.Conditions {
			if c.Type == v1beta2.ConditionEnrolled && c.Status == metav1.ConditionFalse {
				return strings.Contains(c.Message, "a copy of this cluster is running"), c.Message
			}
		}
		return false, fmt.Sprint(err)
	})
	checkModuleStays(t, original, f.Own("mailer"))
}

// While the agent of the original cluster is down, an operator confirms the copy as the only agent, and the copy's
// admin removes all modules.
func TestOriginalRuntimeKeepsModulesRemovedFromItsCopy(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	original := runtimeWith(t, f, "outage", map[string]string{"mailer": "1.0.0"})
	untilQuiet(t, f)
	report := reportAsCopy(t, f, original)
	must(t, original.Agent().Kill())
	until(t, time.Minute, "the publisher removes the module", func() (bool, string) {
		report()
		kyma, err := original.Record(ctx)
		if err != nil {
			return false, err.Error()
		}
		published := kyma.Status.Runtime.Published
		return slices.Contains(published.Removals, f.Own("mailer")), fmt.Sprintf("%+v", published)
	})

	must(t, original.StartAgent())
	until(t, time.Minute, "the publisher detects the copy", func() (bool, string) {
		report()
		kyma, err := original.Record(ctx)
		if err != nil {
			return false, err.Error()
		}
		agent := kyma.Status.Runtime.Agent
		return agent.Clone != "", fmt.Sprintf("%+v", agent)
	})
	checkModuleStays(t, original, f.Own("mailer"))
}

// reportAsCopy returns a function that sends a report from a confirmed copy of a runtime. The copy does not request
// modules.
func reportAsCopy(t *testing.T, f *fleet.Fleet, original *fleet.Runtime) func() {
	t.Helper()
	copied := copyOf(t, f, original)
	record, err := original.Record(t.Context())
	must(t, err)
	return func() {
		copied.pushReport(func(r *bundle.Report) {
			r.Enrollment, r.Instance, r.ClusterUID = nil, "the-copy", record.Status.Runtime.Key.ClusterUID
			r.Confirmed = true
		})
	}
}

// checkModuleStays checks that a module's Manifest exists and is not being deleted.
func checkModuleStays(t *testing.T, r *fleet.Runtime, module string) {
	t.Helper()
	manifest := &v1beta2.Manifest{}
	must(t, r.API.Get(t.Context(), inKyma(module), manifest))
	if !manifest.DeletionTimestamp.IsZero() {
		t.Errorf("module %s of %s is being removed", module, r.ID)
	}
}

// copyOf returns a reporter with a runtime's key.
func copyOf(t *testing.T, f *fleet.Fleet, r *fleet.Runtime) *reporter {
	t.Helper()
	copied := &reporter{t: t, fleet: f, id: r.ID}
	copied.enroll()
	secret := &corev1.Secret{}
	must(t, r.API.Get(t.Context(), client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: "skr-agent-key"},
		secret))
	var err error
	copied.signer, err = trust.LoadSigner(secret.Data["agent.key"])
	must(t, err)
	return copied
}

func desiredState(t *testing.T, f *fleet.Fleet, r *fleet.Runtime) bundle.DesiredState {
	t.Helper()
	fetched, err := r.Desired(t.Context())
	must(t, err)
	verified, err := bundle.Adopt(fetched, r.ID, rootOf(t, f))
	must(t, err)
	repository, err := f.Place.Reading(t.Context(), bundle.DesiredRepository(r.ID))
	must(t, err)
	opened, err := store.FetchBundle(t.Context(), repository, verified)
	must(t, err)
	return opened.State
}
