package scenario

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// secretsNamespace is the control plane's namespace with the Secrets for runtimes.
const secretsNamespace = "kcp-secrets"

// withSecrets grants the publisher read access only to the Secrets in secretsNamespace.
var withSecrets = fleet.Options{
	PublisherFlags:  []string{"--secrets-namespace", secretsNamespace},
	PublisherRights: []string{"publisher.yaml", "secrets.yaml"},
}

// secretFor returns a control-plane Secret that the publisher delivers to a module in a runtime.
func secretFor(runtime, module, name, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: secretsNamespace, Name: runtime + "-" + name,
			Labels: map[string]string{
				v1beta2.LabelSecretFor: runtime, v1beta2.LabelModuleName: module, "app": module,
			},
			Annotations: map[string]string{v1beta2.AnnotationSecretName: name},
		},
		Data: map[string][]byte{"password": []byte(value)},
	}
}

func rotate(t *testing.T, f *fleet.Fleet, secret *corev1.Secret, value string) {
	t.Helper()
	before := secret.DeepCopy()
	secret.Data = map[string][]byte{"password": []byte(value)}
	must(t, f.Control.Patch(t.Context(), secret, client.MergeFrom(before)))
}

// untilSecret waits until a runtime has a Secret with the given value. If the value is empty, it waits until the Secret
// does not exist.
func untilSecret(t *testing.T, r *fleet.Runtime, name, value string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	until(t, 30*time.Second, fmt.Sprintf("%s has value %q in Secret %s", r.ID, value, name), func() (bool, string) {
		err := r.API.Get(t.Context(), inKyma(name), secret)
		if value == "" {
			return apierrors.IsNotFound(err), fmt.Sprintf("%v, %s", err, secret.Data)
		}
		return err == nil && string(secret.Data["password"]) == value, fmt.Sprintf("%v, %s", err, secret.Data)
	})
	return secret
}

// secretsMessage waits until the runtime's condition Secrets has the status and reason, and returns its message.
func secretsMessage(t *testing.T, r *fleet.Runtime, status metav1.ConditionStatus, reason string) string {
	t.Helper()
	var condition metav1.Condition
	until(t, 30*time.Second, fmt.Sprintf("%s has Secrets=%s (%s)", r.ID, status, reason), func() (bool, string) {
		kyma, err := r.Record(t.Context())
		if err != nil {
			return false, err.Error()
		}
		if c := meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionSecrets); c != nil {
			condition = *c
		}
		return condition.Status == status && condition.Reason == reason, fmt.Sprintf("%+v", condition)
	})
	return condition.Message
}

var encoded = regexp.MustCompile(`[A-Za-z0-9+/_-]{12,}`)

// holds reports whether data contains a value, as plain text or encoded in base64.
func holds(data []byte, value string) bool {
	if bytes.Contains(data, []byte(value)) {
		return true
	}
	for _, text := range encoded.FindAll(data, -1) {
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			// If the base64 text is truncated, decode it up to its last complete group.
			plain := make([]byte, e.DecodedLen(len(text)))
			if n, _ := e.Decode(plain, text[:len(text)/4*4]); n > 8 && holds(plain[:n], value) {
				return true
			}
		}
	}
	return false
}

// whereInFiles returns the files in a folder that contain a value.
func whereInFiles(t *testing.T, dir, value string) (found []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && holds(data, value) {
			found = append(found, path)
		}
		return err
	}))
	return found
}

// wantInNoPlace fails the test if the registry's files, a log or a Kyma contain the value.
func wantInNoPlace(t *testing.T, f *fleet.Fleet, runtimes []*fleet.Runtime, value string) {
	t.Helper()
	if found := whereInFiles(t, f.Registry.Dir(), value); len(found) > 0 {
		t.Errorf("the registry contains %q: %v", value, found)
	}
	logs, err := filepath.Glob(filepath.Join(f.Dir, "*.log"))
	must(t, err)
	for _, log := range logs {
		if data, err := os.ReadFile(log); err != nil || holds(data, value) {
			t.Errorf("%s contains %q (error %v)", log, value, err)
		}
	}
	apis := map[string]client.Client{"the control plane": f.Control}
	for _, r := range runtimes {
		apis[r.ID] = r.API
	}
	for where, api := range apis {
		for _, list := range []client.ObjectList{&v1beta2.KymaList{}, &v1beta2.ManifestList{}, &eventsv1.EventList{},
			&corev1.ConfigMapList{}} {
			must(t, api.List(t.Context(), list))
			if data, err := json.Marshal(list); err != nil || holds(data, value) {
				t.Errorf("%s contains %q in a %T (error %v)", where, value, list, err)
			}
		}
	}
}

// secretsWith returns a runtime's Secrets that contain a value.
func secretsWith(t *testing.T, r *fleet.Runtime, value string) (found []string) {
	t.Helper()
	var all corev1.SecretList
	must(t, r.API.List(t.Context(), &all))
	for _, secret := range all.Items {
		for _, data := range secret.Data {
			if holds(data, value) {
				found = append(found, secret.Namespace+"/"+secret.Name)
			}
		}
	}
	return found
}

func TestEachRuntimeGetsOnlyItsOwnSecrets(t *testing.T) {
	const first, second, third, others, kubeconfig = "alpha-first-value", "alpha-second-value", "alpha-third-value",
		"bravo-only-value", "a-kubeconfig-in-kcp"
	ctx := t.Context()
	f := newFleet(t, withSecrets)
	ofA, ofB := secretFor("a", "scaler", "scaler-login", first), secretFor("b", "scaler", "scaler-login", others)
	// A Kyma control plane also has Secrets that must not reach any runtime, such as kubeconfigs.
	internal := secretFor("a", "scaler", "kubeconfig", kubeconfig)
	internal.Labels = map[string]string{v1beta2.LabelRuntimeID: "a", v1beta2.LabelModuleName: "scaler"}
	for _, secret := range []*corev1.Secret{ofA, ofB, internal} {
		must(t, f.Control.Create(ctx, secret))
	}
	a, b := runtimeWith(t, f, "a", map[string]string{"scaler": "1.7.0"}),
		runtimeWith(t, f, "b", map[string]string{"scaler": "1.7.0"})
	runtimes := []*fleet.Runtime{a, b}

	there := untilSecret(t, a, "scaler-login", first)
	if there.Labels["app"] != "scaler" || there.Labels[v1beta2.LabelSealed] != v1beta2.True ||
		there.Labels[v1beta2.LabelSecretFor] != "" {
		t.Errorf("the runtime's Secret has unexpected labels %v", there.Labels)
	}
	untilSecret(t, b, "scaler-login", others)
	for _, r := range runtimes {
		secretsMessage(t, r, metav1.ConditionTrue, "Written")
	}
	if found := append(append(secretsWith(t, a, others), secretsWith(t, b, first)...),
		secretsWith(t, a, kubeconfig)...); len(found) > 0 {
		t.Errorf("a runtime has another runtime's Secret: %v", found)
	}
	if found := secretsWith(t, a, first); len(found) != 1 {
		t.Errorf("the agent stores the value outside of the Secret: %v", found)
	}

	// The agent restores a deleted or changed Secret without the registry, even after a restart.
	must(t, a.API.Delete(ctx, there))
	there = untilSecret(t, a, "scaler-login", first)
	a.Agent().Kill()
	must(t, f.Registry.Stop())
	change(t, a.API, there, func(there *corev1.Secret) {
		there.Data = map[string][]byte{"password": []byte("defaced")}
	})
	must(t, a.StartAgent())
	untilSecret(t, a, "scaler-login", first)
	must(t, f.Registry.Resume())

	rotate(t, f, ofA, second)
	untilSecret(t, a, "scaler-login", second)
	t.Run("large Secret does not block others", func(t *testing.T) {
		suite.Long(t) // the short suite runs TestSealedSecretsDependOnModulesAndChanges
		// Other Secrets still rotate and are removed.
		huge := secretFor("a", "scaler", "huge", strings.Repeat("x", 24_000))
		must(t, f.Control.Create(ctx, huge))
		if message := secretsMessage(t, a, metav1.ConditionFalse, v1beta2.ReasonNotSealed); !strings.Contains(message,
			"secret kyma-system/huge: 32") || !strings.Contains(message, "at most") {
			t.Errorf("unexpected message of condition Secrets: %q", message)
		}
		rotate(t, f, ofA, third)
		untilSecret(t, a, "scaler-login", third)
		must(t, f.Control.Delete(ctx, huge))
		secretsMessage(t, a, metav1.ConditionTrue, "Written")
	})

	t.Run("agent without its key gets a new one", func(t *testing.T) {
		suite.Long(t) // the short suite runs TestAgentReconcilesSealedSecrets
		// After its restart, the agent receives all Secrets again.
		a.Agent().Kill()
		must(t, a.API.Delete(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "skr-agent-age"},
		}))
		must(t, a.API.Delete(ctx, there.DeepCopy()))
		must(t, a.StartAgent())
		untilSecret(t, a, "scaler-login", third)
		rotate(t, f, ofA, second)
		untilSecret(t, a, "scaler-login", second)
		secretsMessage(t, a, metav1.ConditionTrue, "Written")
	})

	t.Run("restarted publisher keeps sealed Secrets", func(t *testing.T) {
		suite.Long(t) // the short suite runs TestSealedSecretsDependOnModulesAndChanges
		lies, err := a.Desired(ctx)
		must(t, err)
		f.Publisher().Kill()
		must(t, f.StartPublisher())
		promote(t, f, "1.8.0")
		must(t, b.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
		must(t, a.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
		if was, is := sealedIn(t, lies.Bytes), sealedIn(t, desired(t, a)); was == "" || was != is {
			t.Error("a bundle with an unrelated change sealed the Secrets again")
		}
	})

	for _, value := range []string{first, second, third, others, kubeconfig} {
		wantInNoPlace(t, f, runtimes, value)
	}
	// The test relies on the search, so check that the search finds text that these files certainly contain.
	if len(whereInFiles(t, f.Registry.Dir(), "age-encryption.org")) < 2 {
		t.Error("the search does not read the registry's data")
	}
}

func desired(t *testing.T, r *fleet.Runtime) []byte {
	t.Helper()
	fetched, err := r.Desired(t.Context())
	must(t, err)
	return fetched.Bytes
}

// sealedIn returns the encrypted Secrets in a bundle's manifest.
func sealedIn(t *testing.T, manifest []byte) string {
	t.Helper()
	var bundle struct{ Annotations map[string]string }
	must(t, json.Unmarshal(manifest, &bundle))
	var attestation struct {
		Envelope struct{ Payload []byte } `json:"dsseEnvelope"`
	}
	must(t, json.Unmarshal([]byte(bundle.Annotations["dev.kyma-pull.bundle.attestation"]), &attestation))
	var statement struct {
		Predicate struct{ Sealed struct{ Data string } }
	}
	must(t, json.Unmarshal(attestation.Envelope.Payload, &statement))
	return statement.Predicate.Sealed.Data
}

func TestSecretIsRemovedOnlyOnRequest(t *testing.T) {
	ctx := t.Context()
	options := withSecrets
	options.PublisherFlags = slices.Concat(options.PublisherFlags, []string{"--image-pull-secret", "pull"})
	f := newFleet(t, options)
	must(t, f.Control.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: secretsNamespace, Name: "pull"},
		Type:       corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{
			corev1.DockerConfigJsonKey: []byte(`{"auths":{}}`),
		},
	}))
	login, mail := secretFor("a", "scaler", "scaler-login", "for the scaler"),
		secretFor("a", "mailer", "mail-login", "for the mailer")
	taken := secretFor("a", "scaler", "taken", "from the control plane")
	for _, secret := range []*corev1.Secret{login, mail} {
		must(t, f.Control.Create(ctx, secret))
	}
	a := runtimeWith(t, f, "a", map[string]string{"scaler": "1.7.0", "mailer": "1.0.0"})
	untilSecret(t, a, "scaler-login", "for the scaler")
	untilSecret(t, a, "mail-login", "for the mailer")
	secretsMessage(t, a, metav1.ConditionTrue, "Written")

	// The copy of a Secret for all runtimes keeps the Secret's name, because the modules' pods use it as an image pull
	// secret.
	pull := &corev1.Secret{}
	must(t, a.API.Get(ctx, inKyma("pull"), pull))
	manager := &appsv1.Deployment{}
	must(t, a.API.Get(ctx, inKyma("scaler-manager"), manager))
	pod := manager.Spec.Template.Spec
	if pull.Type != corev1.SecretTypeDockerConfigJson || len(pod.ImagePullSecrets) != 1 ||
		pod.ImagePullSecrets[0].Name != "pull" ||
		!slices.Contains(pod.Containers[0].Env, corev1.EnvVar{Name: "SKR_IMG_PULL_SECRET", Value: "pull"}) {
		t.Errorf("got Secret pull of type %s and operator pods %+v", pull.Type, pod)
	}

	// The publisher reports a Secret for an unknown runtime. The agent restores a removed label.
	must(t, f.Control.Create(ctx, secretFor("aa", "scaler", "mistyped", "for nobody")))
	until(t, 30*time.Second, "the publisher reports that no Kyma has the runtime", func() (bool, string) {
		log, err := os.ReadFile(filepath.Join(f.Dir, "kcp-publisher.log"))
		return bytes.Contains(log, []byte("a Secret is for an unknown runtime")), fmt.Sprint(err)
	})
	stripped := untilSecret(t, a, "scaler-login", "for the scaler")
	change(t, a.API, stripped, func(stripped *corev1.Secret) {
		delete(stripped.Labels, v1beta2.LabelSealed)
		stripped.Data = map[string][]byte{"password": []byte("a tenant's")}
	})
	if back := untilSecret(t, a, "scaler-login", "for the scaler"); back.Labels[v1beta2.LabelSealed] != v1beta2.True {
		t.Errorf("the restored Secret has unexpected labels %v", back.Labels)
	}

	// The agent does not overwrite or delete another owner's Secret with the same name.
	own := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "taken"},
		Data:       map[string][]byte{"password": []byte("a tenant's")},
	}
	must(t, a.API.Create(ctx, own))
	must(t, f.Control.Create(ctx, taken))
	if message := secretsMessage(t, a, metav1.ConditionFalse,
		"NotWritten"); message != "secret kyma-system/taken: the existing Secret belongs to another owner; delete it, or "+
		"choose another name in the control plane" {
		t.Errorf("unexpected message of condition Secrets: %q", message)
	}
	must(t, f.Control.Delete(ctx, taken))
	secretsMessage(t, a, metav1.ConditionTrue, "Written")
	untilSecret(t, a, "taken", "a tenant's")

	// If a Secret in the control plane does not name a runtime anymore, that runtime's agent deletes its copy.
	before := login.DeepCopy()
	delete(login.Labels, v1beta2.LabelSecretFor)
	must(t, f.Control.Patch(ctx, login, client.MergeFrom(before)))
	untilSecret(t, a, "scaler-login", "")
	before = login.DeepCopy()
	login.Labels[v1beta2.LabelSecretFor] = "a"
	must(t, f.Control.Patch(ctx, login, client.MergeFrom(before)))
	untilSecret(t, a, "scaler-login", "for the scaler")

	// If the control plane loses its Secrets, for example in a rebuild, no Secret is removed from runtimes.
	f.Publisher().Kill()
	kyma, err := a.Record(ctx)
	must(t, err)
	remembered := kyma.DeepCopy()
	kyma.Status.Runtime.Secrets = nil
	must(t, f.Control.Status().Patch(ctx, kyma, client.MergeFrom(remembered)))
	must(t, f.Control.Delete(ctx, login))
	must(t, f.StartPublisher())
	promote(t, f, "1.8.0")
	must(t, a.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	untilSecret(t, a, "scaler-login", "for the scaler")

	// The Secret of a removed module is deleted.
	must(t, a.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		spec.Modules = slices.DeleteFunc(spec.Modules, func(m v1beta2.Module) bool { return m.Name == "mailer" })
	}))
	must(t, a.UntilGone(ctx, "mailer"))
	untilSecret(t, a, "mail-login", "")

	// Deleting the Kyma deletes all remaining Secrets in the runtime.
	login.ResourceVersion, login.UID = "", ""
	must(t, f.Control.Create(ctx, login))
	until(t, 30*time.Second, "the publisher publishes Secret scaler-login again", func() (bool, string) {
		kyma, err := a.Record(ctx)
		if err != nil {
			return false, err.Error()
		}
		published := kyma.Status.Runtime.Secrets
		return slices.Contains(published, inKyma("scaler-login").String()), fmt.Sprint(published)
	})
	secretsMessage(t, a, metav1.ConditionTrue, "Written")
	deleteKyma(t, f, a)
	untilForgotten(t, a, 60*time.Second)
	untilSecret(t, a, "scaler-login", "")
	untilSecret(t, a, "pull", "")
	untilSecret(t, a, "taken", "a tenant's")
}
