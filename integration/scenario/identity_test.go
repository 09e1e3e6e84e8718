package scenario

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// relabel changes a Kyma's runtime ID in the control plane.
func relabel(t *testing.T, f *fleet.Fleet, kyma, runtime string) error {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, v1beta2.LabelRuntimeID, runtime)
	return f.Control.Patch(t.Context(), fleet.NewKyma(kyma, "regular"),
		client.RawPatch(types.MergePatchType, []byte(patch)))
}

// untilReadyBecause waits until a Kyma has the state, and the message of its Ready condition contains the words.
func untilReadyBecause(t *testing.T, f *fleet.Fleet, name string, state v1beta2.State, words string) {
	t.Helper()
	until(t, 30*time.Second, fmt.Sprintf("Kyma %s is %s because %q", name, state, words), func() (bool, string) {
		kyma := fleet.NewKyma(name, "regular")
		if err := f.Control.Get(t.Context(), client.ObjectKeyFromObject(kyma), kyma); err != nil {
			return false, err.Error()
		}
		ready := meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionReady)
		return ready != nil && kyma.Status.State == state && strings.Contains(ready.Message, words),
			fmt.Sprintf("%s %+v", kyma.Status.State, ready)
	})
}

// The attacker can edit the oldest Kyma.
func TestRuntimeStaysWithTheKymaFromEnrollment(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, withSecrets)
	older := fleet.NewKyma("mallory", "regular")
	older.Annotations = map[string]string{
		v1beta2.AnnotationAgentImage: "evil.example/agent@sha256:" + strings.Repeat("0", 64),
	}
	must(t, f.Control.Create(ctx, older))
	victim := runtimeWith(t, f, "victim", map[string]string{"scaler": "1.7.0"})
	before, err := victim.Desired(ctx)
	must(t, err)

	t.Log("An older Kyma claims the ID of an enrolled runtime.")
	must(t, relabel(t, f, "mallory", "victim"))
	untilReadyBecause(t, f, "mallory", v1beta2.StateError, "the Kyma owns runtime mallory, but label")
	untilReadyBecause(t, f, "victim", v1beta2.StateReady, "all modules are ready")

	t.Log("An enrolled Kyma is labeled with the runtime ID of Secrets.")
	must(t, f.Control.Create(ctx, secretFor("bob", "", "database", "for bob alone")))
	must(t, relabel(t, f, "victim", "bob"))
	untilReadyBecause(t, f, "victim", v1beta2.StateError, "the Kyma owns runtime victim, but label")
	repository, err := f.Place.Reading(ctx, bundle.DesiredRepository("bob"))
	must(t, err)
	if d, err := store.Head(ctx, repository, bundle.TagDesired); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unexpected bundle %s of runtime bob (error %v)", d, err)
	}
	must(t, relabel(t, f, "victim", "victim"))
	untilReadyBecause(t, f, "victim", v1beta2.StateReady, "all modules are ready")
	after, err := victim.Desired(ctx)
	must(t, err)
	if before.Descriptor.Digest != after.Descriptor.Digest {
		t.Error("the attempts changed the runtime's bundle")
	}

	t.Log("With the chart's policy, the API server refuses the edit.")
	must(t, fleet.ApplyChartFile(ctx, f.Control, "kcp-publisher", "policy", "identity.yaml"))
	tries := 0
	until(t, 30*time.Second, "the edit is refused", func() (bool, string) {
		tries++ // the edit succeeds until the policy takes effect
		err := relabel(t, f, "victim", fmt.Sprintf("bob-%d", tries))
		return err != nil && strings.Contains(err.Error(), "cannot change; delete the Kyma"), fmt.Sprint(err)
	})
	must(t, relabel(t, f, "victim", "victim")) // revert the edit
	untilReadyBecause(t, f, "victim", v1beta2.StateReady, "all modules are ready")

	t.Log("A refused Kyma can be deleted: only its own runtime is notified.")
	must(t, f.Control.Delete(ctx, fleet.NewKyma("mallory", "regular")))
	until(t, 30*time.Second, "the Kyma is deleted", func() (bool, string) {
		err := f.Control.Get(ctx, client.ObjectKeyFromObject(older), older)
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	untilReadyBecause(t, f, "victim", v1beta2.StateReady, "all modules are ready")

	t.Log("A Kyma with another runtime's ID frees its own runtime when it is deleted, and takes nothing of the other " +
		"one.")
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kcp-publisher-identity"},
	}
	must(t, f.Control.Delete(ctx, binding))
	until(t, 30*time.Second, "the edit is allowed", func() (bool, string) {
		err := relabel(t, f, "victim", "bob")
		return err == nil, fmt.Sprint(err)
	})
	untilReadyBecause(t, f, "victim", v1beta2.StateError, "which removes all modules from victim")
	deleteKyma(t, f, victim)
	untilForgotten(t, victim, 60*time.Second)
	untilEmpty(t, victim)
	if d, err := store.Head(ctx, repository, bundle.TagDesired); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unexpected bundle %s of runtime bob (error %v)", d, err)
	}
}
