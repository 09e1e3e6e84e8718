package scenario

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// regionalGreeter returns a module whose chart values and default CR contain placeholders for runtime values.
func regionalGreeter(version string) sample.Version {
	v := sample.Greeter(version)
	v.UsesValues = "region,labels.kyma-project.io/tier"
	for i := range v.Resources {
		if v.Resources[i].Name == "config" {
			v.Resources[i].Content = []byte("greeting: 'hello from ${kyma-pull.dev/values.region}'\n")
		}
	}
	v.DefaultCR = `{apiVersion: sample.kyma-pull.dev/v1, kind: Greeting, metadata: {name: default}, spec: {text: "${kyma-pull.dev/values.labels.kyma-project.io/tier}"}}`
	return v
}

// setValues changes the runtime values in the Kyma in the control plane.
func setValues(t *testing.T, f *fleet.Fleet, r *fleet.Runtime, values, tier string) {
	t.Helper()
	kyma, err := r.Record(t.Context())
	must(t, err)
	change(t, f.Control, kyma, func(k *v1beta2.Kyma) {
		if k.Annotations == nil {
			k.Annotations = map[string]string{}
		}
		k.Annotations[v1beta2.AnnotationValues] = values
		if k.Labels == nil {
			k.Labels = map[string]string{}
		}
		k.Labels["kyma-project.io/tier"] = tier
	})
}

func stateOf(ctx context.Context, t *testing.T, r *fleet.Runtime) string {
	t.Helper()
	fetched, err := r.Desired(ctx)
	must(t, err)
	manifest, refused := bundle.ReadManifest(fetched, bundle.ArtifactTypeBundle)
	if refused != nil {
		t.Fatal(refused)
	}
	return manifest.Config.Digest.String()
}

func untilGreeting(t *testing.T, r *fleet.Runtime, want string) {
	t.Helper()
	until(t, 60*time.Second, "the greeting in "+r.ID+" is "+want, func() (bool, string) {
		config := &corev1.ConfigMap{}
		if err := r.API.Get(t.Context(), inKyma("greeter"), config); err != nil {
			return false, err.Error()
		}
		return config.Data["greeting"] == want, config.Data["greeting"]
	})
}

func TestRuntimesWithDifferentValuesShareOneDocument(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	offer(t, f, regionalGreeter("1.0.0"))
	eu, err := f.AddRuntime(ctx, "eu", "regular", "greeter", "mailer")
	must(t, err)
	us, err := f.AddRuntime(ctx, "us", "regular", "greeter", "mailer")
	must(t, err)

	s := newPlainShell(t, f.Dir, f.Binaries(), "RUNTIME", "eu", "MODULE", "greeter")
	s.env = append(s.env, "KUBECONFIG="+f.ControlKubeconfig())
	why := blocksOf(t, "docs/guides/values.md", 1)[0]
	t.Run("undefined value blocks only its module and is reported", func(t *testing.T) {
		must(t, eu.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))
		until(t, 30*time.Second, "why reports the value and the module", func() (bool, string) {
			text, err := s.try(why)
			return err == nil && strings.Contains(text, "kyma-pull.dev/values") &&
				strings.Contains(text,
					"module greeter: value labels.kyma-project.io/tier, region is not defined for this runtime"), text
		})
	})
	setValues(t, f, eu, `{"region":"eu","unused":"a"}`, "gold")
	setValues(t, f, us, `{"region":"us: {{ .Values }}\"\n"}`, "silver")
	untilGreeting(t, eu, "hello from eu")
	untilGreeting(t, us, "hello from us: {{ .Values }}\"\n")
	must(t, eu.UntilState(ctx, "greeter", "1.0.0", v1beta2.StateReady))
	must(t, us.UntilState(ctx, "greeter", "1.0.0", v1beta2.StateReady))
	greeting := &unstructured.Unstructured{}
	greeting.SetAPIVersion("sample.kyma-pull.dev/v1")
	greeting.SetKind("Greeting")
	must(t, us.API.Get(ctx, inKyma("default"), greeting))
	if text, _, _ := unstructured.NestedString(greeting.Object, "spec", "text"); text != "silver" {
		t.Errorf("the default CR has unexpected text %q", text)
	}
	if one, other := stateOf(ctx, t, eu), stateOf(ctx, t, us); one != other {
		t.Errorf("the runtimes have different documents %s and %s", one, other)
	}

	t.Run("runtime cannot change its values", func(t *testing.T) {
		kyma, err := eu.Kyma(ctx)
		must(t, err)
		change(t, eu.API, kyma, func(k *v1beta2.Kyma) {
			k.Annotations = map[string]string{v1beta2.AnnotationValues: `{"region":"moon"}`}
		})
		manifest := &v1beta2.Manifest{}
		must(t, eu.API.Get(ctx, inKyma("greeter"), manifest))
		change(t, eu.API, manifest,
			func(m *v1beta2.Manifest) { m.Annotations[v1beta2.AnnotationValues] = `{"region":"moon"}` })
		until(t, 30*time.Second, "the agent restores the signed values in the Manifest", func() (bool, string) {
			must(t, eu.API.Get(ctx, inKyma("greeter"), manifest))
			text := manifest.Annotations[v1beta2.AnnotationValues]
			return strings.Contains(text, `"region":"eu"`), text
		})
		untilGreeting(t, eu, "hello from eu")
	})
	t.Run("changed value is applied", func(t *testing.T) {
		setValues(t, f, eu, `{"region":"eu-central-1"}`, "gold")
		untilGreeting(t, eu, "hello from eu-central-1")
	})
	t.Run("removed value keeps the running module", func(t *testing.T) {
		setValues(t, f, eu, `{}`, "gold")
		untilCondition(t, eu, "greeter", v1beta2.ConditionReady,
			"ValueUndefined: module greeter: value region is not defined")
		untilGreeting(t, eu, "hello from eu-central-1")
		must(t, eu.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))
		setValues(t, f, eu, `{"region":"eu"}`, "gold")
		untilGreeting(t, eu, "hello from eu")
	})
	t.Run("runtime without a value does not stop a rollout", func(t *testing.T) { rolloutWithoutValue(t, f, eu, us) })
}

// rolloutWithoutValue promotes a version that needs one more value, which the wave's first runtime does not have. In
// the long suite, maxConcurrent is 1, so the second runtime waits until the first one has been postponed for a
// minute. In the short suite, TestUnresolvedRuntimeDoesNotCountTowardMaxConcurrent in core/rollout covers the
// postponement.
func rolloutWithoutValue(t *testing.T, f *fleet.Fleet, runtimes ...*fleet.Runtime) {
	t.Helper()
	ctx, next := t.Context(), regionalGreeter("1.1.0")
	next.UsesValues += ",size:int"
	var maxConcurrent *intstr.IntOrString
	deferred := len(runtimes)
	if suite.Selected() {
		maxConcurrent, deferred = new(intstr.FromInt32(1)), 1
	}
	must(t, f.Offer(ctx, next))
	must(t, f.CreatePolicy(ctx, "greeter", v1alpha1.Course{Waves: []v1alpha1.Wave{{
		Name: "all", Percent: new(int32(100)), Deadline: metav1.Duration{Duration: time.Hour},
		MaxConcurrent: maxConcurrent, MaxDeferred: new(intstr.FromInt32(0)),
	}}, OfflineAfter: metav1.Duration{Duration: time.Hour}}))
	must(t, release(ctx, f, next))
	const name = "greeter-regular-1"
	must(t, f.UntilRollout(ctx, name, fmt.Sprint("deferred runtimes: ", deferred), func(s v1alpha1.RolloutStatus) bool {
		return int(s.Deferred) == deferred && strings.Contains(s.Message, "value size is not defined")
	}))
	rollout, err := f.Rollout(ctx, name)
	must(t, err)
	first, second := runtimes[0], runtimes[1]
	if strings.Contains(rollout.Status.Message, second.ID+" (") {
		first, second = second, first
	}
	setValues(t, f, second, `{"region":"x","size":"1"}`, "gold")
	must(t, second.UntilState(ctx, "greeter", "1.1.0", v1beta2.StateReady))
	must(t, first.UntilState(ctx, "greeter", "1.0.0", v1beta2.StateError))
	setValues(t, f, first, `{"region":"x","size":"1"}`, "gold")
	must(t, first.UntilState(ctx, "greeter", "1.1.0", v1beta2.StateReady))
	must(t, f.UntilRollout(ctx, name, "the rollout succeeds", rolledOut(v1alpha1.RolloutSucceeded)))
}
