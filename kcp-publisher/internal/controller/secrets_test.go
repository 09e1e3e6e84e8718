package controller

import (
	"context"
	"crypto/ed25519"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

func controlSecret(name string, age time.Duration, annotations map[string]string) corev1.Secret {
	return corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kcp-system", Name: name, UID: "u", ResourceVersion: "7",
			CreationTimestamp: metav1.NewTime(noon.Add(-age)), Annotations: annotations,
			Labels: map[string]string{
				v1beta2.LabelSecretFor: "one", v1beta2.LabelModuleName: "keda", v1beta2.LabelRuntimeID: "one",
				"app": "keda",
			},
		},
		Type: corev1.SecretTypeBasicAuth, Data: map[string][]byte{"password": []byte("hunter2")},
	}
}

func TestSecretIsDeliveredToItsRuntime(t *testing.T) {
	all, err := runtimeSecrets([]corev1.Secret{
		controlSecret("plain", 0, nil),
		controlSecret("elsewhere", 0, map[string]string{
			v1beta2.AnnotationSecretName: "login", v1beta2.AnnotationSecretNamespace: "keda",
		}),
	})
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	s := all[1]
	if all[0].NamespacedName() != "keda/login" || s.NamespacedName() != "kyma-system/plain" || s.Module != "keda" ||
		s.Revision != "u 7" ||
		s.Type != corev1.SecretTypeBasicAuth ||
		string(s.Data["password"]) != "hunter2" || !maps.Equal(s.Labels, map[string]string{"app": "keda"}) {
		t.Errorf("got Secrets %+v, want keda/login and kyma-system/plain", all)
	}
}

func TestInvalidSecretDoesNotBlockOthers(t *testing.T) {
	leaving := controlSecret("leaving", 0, nil)
	leaving.DeletionTimestamp = &metav1.Time{Time: noon}
	for name, c := range map[string]struct {
		bad corev1.Secret
		why string
	}{
		"name reserved for the agent": {
			controlSecret("bad", 0, map[string]string{v1beta2.AnnotationSecretName: "skr-agent-key"}),
			"Secret kcp-system/bad cannot be delivered: secret kyma-system/skr-agent-key: the name is reserved for " +
				"the agent; choose another",
		},
		"invalid name": {
			controlSecret("bad", 0, map[string]string{v1beta2.AnnotationSecretName: "A B"}),
			"must be a valid namespace and name",
		},
		"namespace reserved for the cluster": {
			controlSecret("bad", 0, map[string]string{v1beta2.AnnotationSecretNamespace: "kube-system"}),
			"reserved for the cluster",
		},
		"name of an older Secret": {
			controlSecret("bad", 0, map[string]string{v1beta2.AnnotationSecretName: "good"}),
			"Secret kcp-system/bad: its name in the runtime would be kyma-system/good, which Secret good already " +
				"uses: change the annotation kyma-pull.dev/secret-name",
		},
		"Secret that is being deleted": {leaving, ""},
	} {
		all, err := runtimeSecrets([]corev1.Secret{c.bad, controlSecret("good", time.Hour, nil)})
		if len(all) != 1 || all[0].Name != "good" || all[0].Revision != "u 7" {
			t.Errorf("%s: got Secrets %+v, want the valid one", name, all)
		}
		if (err == nil) != (c.why == "") || err != nil &&
			(!strings.Contains(err.Error(), c.why) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: got error %v, want %q without the Secret's data", name, err, c.why)
		}
	}
}

type unread struct{ client.Reader }

func TestUnknownRuntimeGetsNoSecrets(t *testing.T) {
	key := ed25519.PublicKey("any")
	accepted := &bundle.AcceptedReport{}
	for name, c := range map[string]struct {
		newest  fleetstate.Report
		runtime plan.Runtime
	}{
		"runtime without a report": {fleetstate.Report{}, plan.Runtime{ID: "one", Key: key}},
		"runtime whose latest report was refused": {
			fleetstate.Report{Accepted: accepted, Refused: &refusal.Error{}}, plan.Runtime{ID: "one", Key: key},
		},
		"runtime that is not enrolled": {
			fleetstate.Report{Accepted: accepted}, plan.Runtime{ID: "one"},
		},
	} {
		problem, err := (&Kymas{secrets: unread{}}).addSecrets(t.Context(), kymaOf("one"), &c.runtime, c.newest)
		if problem != nil || err != nil || c.runtime.Secrets != nil {
			t.Errorf("%s: got problem %v, error %v, Secrets %+v, want none", name, problem, err, c.runtime.Secrets)
		}
	}
}

// secretLister lists one Secret, or returns an error.
type secretLister struct {
	client.Reader
	secret *corev1.Secret
}

func (l secretLister) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if l.secret == nil {
		return errors.New("forbidden")
	}
	list.(*corev1.SecretList).Items = []corev1.Secret{*l.secret}
	return nil
}

// The deletion of a Kyma can wait for an operator's approval. Until then, its Secrets are updated.
func TestSecretsOfADeletedKymaAreRead(t *testing.T) {
	accepted := &bundle.AcceptedReport{Report: bundle.Report{Runtime: "one"}}
	for name, c := range map[string]struct {
		lister secretLister
		names  []string
	}{
		"readable": {
			secretLister{secret: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "s", Name: "login", UID: "1"}}},
			[]string{"kyma-system/former", "kyma-system/login"},
		},
		"unreadable": {secretLister{}, []string{"kyma-system/former"}},
	} {
		kyma, r := kymaOf("one"), plan.Runtime{ID: "one", Key: ed25519.PublicKey("any"), IsDeleting: true}
		kyma.Status.Runtime = &v1beta2.RuntimeStatus{Key: &v1beta2.RuntimeKey{}, Secrets: []string{"kyma-system/former"}}
		problem, err := (&Kymas{secrets: c.lister}).addSecrets(t.Context(), kyma, &r, fleetstate.Report{Accepted: accepted})
		var names []string
		if r.Secrets != nil {
			names = r.Secrets.RecordedNames
		}
		if (problem != nil) != (c.lister.secret == nil) || err != nil || !slices.Equal(names, c.names) {
			t.Errorf("%s: got names %v, problem %v, error %v, want names %v", name, names, problem, err, c.names)
		}
	}
}

type pullSecretReader struct {
	client.Reader
	secret *corev1.Secret
}

func (r pullSecretReader) Get(_ context.Context, at client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if r.secret == nil || client.ObjectKeyFromObject(r.secret) != at {
		return apierrors.NewNotFound(corev1.Resource("secrets"), at.Name)
	}
	r.secret.DeepCopyInto(into.(*corev1.Secret))
	return nil
}

func TestImagePullSecretIsForAllRuntimes(t *testing.T) {
	pull := controlSecret("pull", 0, map[string]string{v1beta2.AnnotationSecretName: "other"})
	pull.Type = corev1.SecretTypeDockerConfigJson
	opaque := controlSecret("pull", 0, nil)
	opaque.Type = corev1.SecretTypeOpaque
	for name, c := range map[string]struct {
		secret *corev1.Secret
		want   []string
		why    string
	}{
		"existing Secret": {&pull, []string{"kyma-system/pull"}, ""},
		"missing Secret":  {nil, nil, "image pull Secret kcp-system/pull not found: create it"},
		"Secret with a different type": {
			&opaque, nil, `image pull Secret kcp-system/pull has type "Opaque", must be kubernetes.io/dockerconfigjson`,
		},
	} {
		kymas := &Kymas{
			pullSecrets: pullSecretReader{secret: c.secret},
			Options:     Options{ImagePullSecret: types.NamespacedName{Namespace: "kcp-system", Name: "pull"}},
		}
		kyma := kymaOf("one")
		kyma.Status.Runtime = &v1beta2.RuntimeStatus{
			Key: &v1beta2.RuntimeKey{}, Secrets: []string{"kyma-system/before"},
		}
		r := plan.Runtime{ID: "one", Key: ed25519.PublicKey("any")}
		problem, err := kymas.addSecrets(t.Context(), kyma, &r, fleetstate.Report{
			Accepted: &bundle.AcceptedReport{Report: bundle.Report{Runtime: "one"}},
		})
		if err != nil || (problem == nil) != (c.why == "") || problem != nil &&
			!strings.Contains(problem.Error(), c.why) {
			t.Fatalf("%s: got problem %v, error %v, want problem %q", name, problem, err, c.why)
		}
		var got []string
		for _, s := range r.Secrets.Published {
			got = append(got, s.NamespacedName())
			if s.Module != "" {
				t.Errorf("%s: the Secret is restricted to module %s", name, s.Module)
			}
		}
		// The publisher could not read the other Secrets, so it must not remove them.
		if !slices.Equal(got, c.want) || !slices.Equal(r.Secrets.KnownNames, c.want) {
			t.Errorf("%s: got Secrets %v, known %v, want %v", name, got, r.Secrets.KnownNames, c.want)
		}
		// The runtime reports that it has applied all Secrets in the latest bundle, which lacks the unread Secrets.
		done := ingest.Facts{
			Published: &plan.PublishedBundle{
				Digest: "sha256:a", Predicate: bundle.Predicate{Sealed: &bundle.Sealed{Revision: "1"}},
			},
			Report: &bundle.AcceptedReport{
				Report: bundle.Report{
					Runtime: "one", Observed: &bundle.Observed{Digest: "sha256:a"},
					Secrets: &bundle.ReportedSecrets{Revision: "1"},
				},
			},
		}
		pass := &pass{kyma: kyma, runtime: r, status: done}
		kymas.Now = func() time.Time { return time.Unix(0, 0) }
		if kymas.setStatus(pass); !slices.Contains(pass.kyma.Status.Runtime.Secrets, "kyma-system/before") {
			t.Errorf("%s: the status lost the runtime's other Secret: %v", name, pass.kyma.Status.Runtime.Secrets)
		}
	}
}
