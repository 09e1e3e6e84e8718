// Package lifecyclemanager runs Kyma's lifecycle-manager with a control plane on this machine, to record its objects
// and to test takeovers. hack/lifecyclemanager builds the program.
//
// Lifecycle-manager runs without Istio and cert-manager. prerequisites.yaml contains their CRDs, and Prepare and
// AddRuntime create their Secrets.
package lifecyclemanager

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/registry"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// Env is the environment variable with the path of the lifecycle-manager program.
const Env = "KLM"

// Program returns the path of the lifecycle-manager program. It skips the test if $KLM is not set.
func Program(t interface{ Skipf(string, ...any) }) string {
	program := os.Getenv(Env)
	if program == "" {
		t.Skipf("$%s is not the path of lifecycle-manager: build it with hack/lifecyclemanager", Env)
	}
	return program
}

// Definitions returns the folder with lifecycle-manager's CRDs. The folder is part of the program's source tree.
func Definitions(program string) string {
	return filepath.Join(filepath.Dir(program), "..", "config", "crd", "bases")
}

//go:embed prerequisites.yaml
var prerequisites []byte

// certificates is the namespace of lifecycle-manager's Secrets with certificates.
const certificates = "istio-system"

// Prepare creates the prerequisites of lifecycle-manager in a control plane.
func Prepare(ctx context.Context, control client.Client) error {
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(prerequisites), 4096); ; {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		err := fleet.Until(ctx, fleet.LongTimeout, "the control plane has "+o.GetKind()+" "+o.GetName(),
			func() (bool, string) {
				err := client.IgnoreAlreadyExists(control.Create(ctx, o.DeepCopy()))
				return err == nil, fmt.Sprint(err) // the API server does not serve a new CRD immediately
			})
		if err != nil {
			return err
		}
	}
	ca, _, err := registry.NewCertificate(net.IPv4(127, 0, 0, 1), "listener.example.org")
	if err != nil {
		return err
	}
	return control.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: certificates, Name: "klm-istio-gateway",
			Annotations: map[string]string{"caAddedToBundleAt": "2026-01-01T00:00:00Z"},
		},
		Data: map[string][]byte{"ca.crt": ca},
	})
}

// AddRuntime gives lifecycle-manager access to a Kyma's runtime.
func AddRuntime(ctx context.Context, control client.Client, kyma, kubeconfig string) error {
	config, err := os.ReadFile(kubeconfig)
	if err != nil {
		return err
	}
	certificate, key, err := registry.NewCertificate(net.IPv4(127, 0, 0, 1), "runtime.example.org")
	if err != nil {
		return err
	}
	for _, secret := range []*corev1.Secret{{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: sample.Namespace, Name: "kubeconfig-" + kyma,
			Labels: map[string]string{v1beta2.LabelKymaName: kyma},
		},
		Data: map[string][]byte{"config": config},
	}, {
		ObjectMeta: metav1.ObjectMeta{Namespace: certificates, Name: kyma + "-webhook-tls"},
		Data:       map[string][]byte{"tls.crt": certificate, "tls.key": key},
	}} {
		if err := control.Create(ctx, secret); err != nil {
			return fmt.Errorf("create Secret %s: %w", secret.Name, err)
		}
	}
	return nil
}

// DomainAnnotation is an annotation that lifecycle-manager requires on each Kyma.
const DomainAnnotation = "skr-domain"

// Options configure lifecycle-manager.
type Options struct {
	Program string
	// Kubeconfig is the path of the control plane's admin kubeconfig.
	Kubeconfig string
	// Components is the registry host and path of the modules.
	Components string
	// Dir is the folder for the log and temporary files.
	Dir string
}

// Start starts lifecycle-manager with short intervals.
func Start(o Options) (*fleet.Process, error) {
	const soon = 2 * time.Second
	args := []string{
		"--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0",
		"--kyma-skr-listener-bind-address=127.0.0.1:0", "--drop-crd-stored-version-map=", "--log-level=1",
		"--skr-watcher-image-registry=registry.example", "--skr-watcher-image-tag=0.0.0",
		"--oci-registry-host=http://" + o.Components, "--module-upgrade-rollout-max-delay=0",
		"--failure-base-delay=100ms", "--failure-max-delay=1s",
	}
	for _, of := range []string{"kyma", "manifest"} {
		for _, after := range []string{"success", "error", "warning", "busy"} {
			args = append(args, fmt.Sprintf("--%s-requeue-%s-interval=%s", of, after, soon))
		}
	}
	for _, of := range []string{"mandatory-module", "mandatory-module-deletion"} {
		args = append(args, fmt.Sprintf("--%s-requeue-success-interval=%s", of, soon))
	}
	temporary := filepath.Join(o.Dir, "lifecycle-manager")
	if err := os.MkdirAll(temporary, 0o700); err != nil {
		return nil, err
	}
	return fleet.Command{
		Binary: o.Program, Args: args, Log: filepath.Join(o.Dir, "lifecycle-manager.log"),
		Env: []string{"KUBECONFIG=" + o.Kubeconfig, "TMPDIR=" + temporary}, // lifecycle-manager caches layers in TMPDIR
	}.Start()
}

// Version returns the version in the log of a started program.
func Version(p *fleet.Process) string {
	const before = "starting Lifecycle-Manager version: "
	_, rest, _ := strings.Cut(p.Log(), before)
	version, _, _ := strings.Cut(rest, `"`)
	return version
}
