package scenario

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// offer adds module versions to the catalog and sets the "regular" channel to the first one.
func offer(t *testing.T, f *fleet.Fleet, versions ...sample.Version) {
	t.Helper()
	must(t, f.Offer(t.Context(), versions...))
	must(t, release(t.Context(), f, versions[0]))
}

func configMap(t *testing.T, r *fleet.Runtime, name string) map[string]string {
	t.Helper()
	config := &corev1.ConfigMap{}
	must(t, r.API.Get(t.Context(), inKyma(name), config))
	return config.Data
}

func imageOf(t *testing.T, r *fleet.Runtime, deployment string) string {
	t.Helper()
	d := &appsv1.Deployment{}
	must(t, r.API.Get(t.Context(), inKyma(deployment), d))
	return d.Spec.Template.Spec.Containers[0].Image
}

// untilCondition waits until a condition on a module's Manifest in the runtime contains the given text.
func untilCondition(t *testing.T, r *fleet.Runtime, module, kind, text string) {
	t.Helper()
	until(t, 30*time.Second, module+" reports "+text+" in its condition "+kind, func() (bool, string) {
		manifest := &v1beta2.Manifest{}
		if err := r.API.Get(t.Context(), inKyma(module), manifest); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(manifest.Status.Conditions, kind)
		if c == nil {
			return false, "the Manifest has no such condition"
		}
		return strings.Contains(c.Reason+": "+c.Message, text), c.Reason + ": " + c.Message
	})
}

func TestChartsAndOverlaysAreInstalledLikeManifests(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{PublisherFlags: []string{"--mirror", "example.org=mirror.example/lab"}})
	offer(t, f, sample.Greeter("1.0.0"), sample.Greeter("1.1.0"))
	offer(t, f, sample.Overlay("1.0.0"))
	r := runtimeWith(t, f, "one", map[string]string{"greeter": "1.0.0", "overlay": "1.0.0", "scaler": "1.7.0"})

	t.Run("chart is rendered with the cluster's values", func(t *testing.T) {
		data := configMap(t, r, "greeter")
		if data["greeting"] != "good morning" || data["deployments"] != "true" || data["looked-up"] != "0" ||
			!strings.HasPrefix(data["kubernetes"], "v1.") {
			t.Errorf("the chart rendered unexpected data %v", data)
		}
		greeting := &unstructured.Unstructured{}
		greeting.SetAPIVersion("sample.kyma-pull.dev/v1")
		greeting.SetKind("Greeting")
		must(t, r.API.Get(ctx, inKyma("greeter"), greeting))
		if err := r.API.Get(ctx, inKyma("greeter-test"), &corev1.Pod{}); !apierrors.IsNotFound(err) {
			t.Errorf("the chart's test hook is installed: %v", err)
		}
	})
	t.Run("overlay is built", func(t *testing.T) {
		if data := configMap(t, r, "overlay-settings"); data["version"] != "1.0.0" {
			t.Errorf("the overlay built unexpected data %v", data)
		}
	})
	t.Run("modules of every content type use images from the mirror", func(t *testing.T) {
		for deployment, want := range map[string]string{
			"greeter": "mirror.example/lab/greeter:1.0.0", "overlay-manager": "mirror.example/lab/overlay:1.0.0",
			"scaler-manager": "mirror.example/lab/scaler:1.7.0",
		} {
			if got := imageOf(t, r, deployment); got != want {
				t.Errorf("Deployment %s runs image %s, want %s", deployment, got, want)
			}
		}
		untilCondition(t, r, "greeter", v1beta2.ConditionImages, "the component lists the 1 images")
	})
	t.Run("drift in a chart's object is corrected", func(t *testing.T) {
		config := &corev1.ConfigMap{}
		must(t, r.API.Get(ctx, inKyma("greeter"), config))
		before := config.DeepCopy()
		config.Data["greeting"] = "go away"
		must(t, r.API.Patch(ctx, config, client.MergeFrom(before)))
		until(t, 20*time.Second, "the agent reverts the greeting", func() (bool, string) {
			data := configMap(t, r, "greeter")
			return data["greeting"] == "good morning", data["greeting"]
		})
	})
	t.Run("a promotion upgrades the chart", func(t *testing.T) {
		must(t, release(ctx, f, sample.Greeter("1.1.0")))
		must(t, r.UntilState(ctx, "greeter", "1.1.0", v1beta2.StateReady))
		if got := imageOf(t, r, "greeter"); got != "mirror.example/lab/greeter:1.1.0" {
			t.Errorf("the greeter Deployment runs unexpected image %s", got)
		}
	})
	t.Run("removed chart module leaves only objects with the keep policy", func(t *testing.T) {
		must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
			for i, m := range spec.Modules {
				if m.Name == "greeter" {
					spec.Modules = append(spec.Modules[:i], spec.Modules[i+1:]...)
					return
				}
			}
		}))
		must(t, r.UntilGone(ctx, "greeter"))
		if err := r.API.Get(ctx, inKyma("greeter"), &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
			t.Errorf("the removed module's Deployment still exists: %v", err)
		}
		// The chart annotates this ConfigMap with Helm's keep policy.
		must(t, r.API.Get(ctx, inKyma("greeter-memory"), &corev1.ConfigMap{}))
	})
}

// endlessCharts contains modules with charts that use CPU or memory without end. The time limit or the memory limit
// stops the rendering, depending on the machine.
var endlessCharts = map[string]hostileModule{
	"looping": {sample.Chart("looping", `{{- range $i := until 1000000000 }}{{ end }}`), "chart"},
	"growing": {
		sample.Chart("growing", `{{- $s := "x" }}{{- range $i := until 40 }}{{ $s = print $s $s }}{{ end }}{{ $s }}`),
		"chart",
	},
}

func TestHostileContentAffectsOnlyItsModule(t *testing.T) { checkOtherModulesWork(t, hostile) }

func TestNonterminatingTemplatesAffectOnlyTheirModule(t *testing.T) {
	suite.Long(t) // the short suite runs TestNonterminatingTemplatesAreStopped
	checkOtherModulesWork(t, endlessCharts)
}

// checkOtherModulesWork checks that the hostile modules fail and that another module can still be upgraded.
func checkOtherModulesWork(t *testing.T, hostile map[string]hostileModule) {
	t.Helper()
	ctx := t.Context()
	f := shareFleet(t)
	for module, c := range hostile {
		offer(t, f, sample.Version{Module: f.Own(module), Version: "1.0.0", Resources: []sample.Resource{c.resource}})
	}
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		for module := range hostile {
			spec.Modules = append(spec.Modules, managed(f.Own(module)))
		}
	}))
	for module, c := range hostile {
		t.Run(module, func(t *testing.T) {
			until(t, 90*time.Second, "the control plane reports the problem", func() (bool, string) {
				kyma, err := r.Record(ctx)
				if err != nil {
					return false, err.Error()
				}
				for _, m := range kyma.Status.Modules {
					if m.Name == f.Own(module) {
						return m.State == v1beta2.StateError && strings.Contains(m.Message, c.want),
							string(m.State) + ": " + m.Message
					}
				}
				return false, "the status does not list the module"
			})
		})
	}
	promote(t, f, "1.8.0")
	must(t, r.UntilState(ctx, f.Own("scaler"), "1.8.0", v1beta2.StateReady))
}

// hostileModule is a module with one resource, and part of the expected error message.
type hostileModule struct {
	resource sample.Resource
	want     string
}

// hostile contains modules that must fail.
var hostile = map[string]hostileModule{
	"rolling": {
		sample.Chart("rolling",
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: dice}\ndata: {thrown: {{ randAlphaNum 20 | quote }}}\n"),
		"randAlphaNum",
	},
	"hooking": {
		sample.Chart("hooking",
			"apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate, annotations: {helm.sh/hook: pre-upgrade}}\n"),
		"migrate",
	},
	"linking": {
		sample.Resource{Name: "raw-manifest", Type: "directoryTree", MediaType: "application/x-tar",
			Content: sample.TarLink("a.yaml", "/etc/passwd")}, "a.yaml",
	},
	"reaching": {sample.Resource{Name: "overlay", Type: "kustomize", MediaType: "application/x-tar",
		Content: sample.Tar("kustomization.yaml",
			"resources: [\"https://github.com/kubernetes-sigs/kustomize//examples/helloWorld?ref=v1.0.6\"]\n")},
		"is an address"},
}

func TestSignedPublicChartIsInstalled(t *testing.T) {
	if _, err := os.Stat(realworld); err != nil {
		t.Skip("shared/realworld does not exist next to this checkout")
	}
	archive, err := filepath.Abs(filepath.Join(realworld, "ctf", "podinfo-6.14.1-signed"))
	must(t, err)
	key, err := filepath.Abs(filepath.Join(realworld, "ctf", "podinfo-6.14.1-signed.pub.pem"))
	must(t, err)
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	must(t, os.WriteFile(policy, []byte("apiVersion: kyma-pull.dev/v1\nkind: SignaturePolicy\nrules:\n"+
		"- {components: kyma-project.io/module/*, required: true, signatures: [kyma-module-signature], keys: ["+key+
		"]}\n"+
		"- {components: \"*\", required: false}\n"), 0o600))
	f := newFleet(t, fleet.Options{PublisherFlags: []string{"--components", archive, "--signature-policy", policy}})
	ctx := t.Context()
	template := sample.Version{Module: "podinfo", Version: "6.14.1"}.Template()
	must(t, f.Control.Create(ctx, template))
	must(t, f.Release(ctx, "podinfo", "kyma-project.io/module/podinfo", sample.Channel("regular", "6.14.1")))
	r := runtimeWith(t, f, "one", map[string]string{"podinfo": "6.14.1"})
	deployment := &appsv1.Deployment{}
	must(t, r.API.Get(ctx, inKyma("podinfo"), deployment))
	if deployment.Labels["app.kubernetes.io/version"] != "6.14.1" {
		t.Errorf("unexpected Deployment labels %v", deployment.Labels)
	}
}

func TestModuleInstallsFromRepositoryInInlineDescriptor(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	v := owned(f, sample.Overlay("2.0.0"))
	must(t, v.Push(ctx, f.Modules))
	descriptor, err := v.Descriptor()
	must(t, err)
	template := v.Template()
	template.Spec.Descriptor.Raw, err = sample.InContext(descriptor, f.Registry.Host(), "modules")
	must(t, err)
	must(t, f.Control.Create(ctx, template))
	must(t, release(ctx, f, v))
	r := runtimeWith(t, f, "one", map[string]string{"overlay": "2.0.0"})
	if data := configMap(t, r, "overlay-settings"); data["version"] != "2.0.0" {
		t.Errorf("the overlay built unexpected data %v", data)
	}
}

func TestSignaturePolicyRejectsUnsignedComponents(t *testing.T) {
	ctx := t.Context()
	key, err := sample.NewSigner("release")
	must(t, err)
	attacker, err := sample.NewSigner("release")
	must(t, err)
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	demand := func(rule string) {
		t.Helper()
		must(t, os.WriteFile(policy, []byte("apiVersion: kyma-pull.dev/v1\nkind: SignaturePolicy\nrules:\n"+
			"- {components: \"*/module/overlay\", "+rule+"}\n"+
			"- {components: \"*\", required: false}\n"), 0o600))
	}
	const signing, signatures = "required: true, signatures: [release]", "kcp-signatures"
	demand(signing)
	f := newFleet(t, fleet.Options{
		PublisherFlags: []string{"--signature-policy", policy, "--signature-keys-namespace", signatures,
			"--set", "component-poll-interval=1s", "--set", "keys-poll-interval=1s"},
		PublisherRights: []string{"publisher.yaml", "signatures.yaml"},
	})
	signed := func(version string, by ...sample.Signer) sample.Version {
		v := sample.Overlay(version)
		v.Signed = by
		return v
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: signatures, Name: "release-key", Labels: map[string]string{v1beta2.LabelSignature: "release"},
		},
		Data: map[string][]byte{"key": key.PublicPEM()},
	}
	offer(t, f, signed("1.0.0", key), signed("1.1.0"), signed("1.2.0", attacker), signed("1.3.0", key))
	r, err := f.AddRuntime(ctx, "one", "regular", "overlay")
	must(t, err)
	expect := func(version, text string) {
		t.Helper()
		until(t, 60*time.Second, "the control plane reports "+text, func() (bool, string) {
			kyma, err := r.Record(ctx)
			if err != nil || len(kyma.Status.Modules) == 0 {
				return false, "no module"
			}
			m := kyma.Status.Modules[0]
			return m.State == v1beta2.StateError && m.Version == version && strings.Contains(m.Message, text),
				m.Version + ": " + m.Message
		})
	}
	expect("", "no key is configured")
	must(t, f.Control.Create(ctx, secret)) // the publisher reads a new Secret without a restart
	must(t, r.UntilState(ctx, "overlay", "1.0.0", v1beta2.StateReady))

	must(t, release(ctx, f, signed("1.1.0")))
	expect("1.0.0", "not signed")
	// The publisher loads a changed policy without a restart. It ignores an invalid policy.
	demand("required: perhaps")
	until(t, 30*time.Second, "the publisher reports that it keeps the previous policy", func() (bool, string) {
		log, err := os.ReadFile(filepath.Join(f.Dir, "kcp-publisher.log"))
		return bytes.Contains(log, []byte("failed to load the signature policy, continuing with the previous one")),
			fmt.Sprint(err)
	})
	expect("1.0.0", "not signed")
	demand("required: false")
	must(t, r.UntilState(ctx, "overlay", "1.1.0", v1beta2.StateReady))
	demand(signing)
	expect("", "not signed") // the next bundle omits the module, but the module stays installed
	must(t, release(ctx, f, signed("1.2.0")))
	expect("", `signature "release"`)
	must(t, release(ctx, f, signed("1.3.0")))
	must(t, r.UntilState(ctx, "overlay", "1.3.0", v1beta2.StateReady))
	if data := configMap(t, r, "overlay-settings"); data["version"] != "1.3.0" {
		t.Errorf("unexpected installed data %v", data)
	}
	rights, err := f.PublisherRights()
	must(t, err)
	lacksNothing(t, "publisher", rights)
}
