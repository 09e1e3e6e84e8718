package admission

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/lender"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func pool(t *testing.T, authorities []byte) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(authorities) {
		t.Fatal("the data contains no CA certificate")
	}
	return p
}

func leaf(t *testing.T, data map[string][]byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(data[keyCert])
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCertificatesAreRenewedInTime(t *testing.T) {
	hosts := []string{"publisher.kcp-system.svc", "127.0.0.1"}
	data, changed, err := renewData(nil, hosts, start)
	if err != nil || !changed {
		t.Fatalf("first certificates: got changed %t and error %v, want true", changed, err)
	}
	trusted, renewals := data[keyCA], 0
	for day := range 6 * 365 {
		now := start.AddDate(0, 0, day)
		next, changed, err := renewData(data, hosts, now)
		if err != nil {
			t.Fatal(err)
		}
		if !changed && !bytes.Equal(next[keyCert], data[keyCert]) {
			t.Fatalf("day %d: got changed false for a changed certificate, want true", day)
		}
		if changed {
			renewals++
		}
		// During a renewal, clients with the old CA must accept the new certificate, and vice versa.
		for what, c := range map[string]struct {
			authorities []byte
			served      map[string][]byte
		}{"today": {next[keyCA], next}, "served yesterday": {next[keyCA], data}} {
			for _, host := range hosts {
				if _, err := leaf(t, c.served).
					Verify(x509.VerifyOptions{Roots: pool(t, c.authorities), DNSName: host,
						CurrentTime: now}); err != nil {
					t.Fatalf("day %d: verify the certificate with %s: %v", day, what, err)
				}
			}
		}
		data = next
	}
	if renewals < 6*365/60 || renewals > 6*365/50 || bytes.Equal(trusted, data[keyCA]) {
		t.Errorf("got %d renewals in 6 years", renewals)
	}
	if n := bytes.Count(data[keyCA], []byte("BEGIN CERTIFICATE")); n > 2 {
		t.Errorf("%d CAs are trusted in the end, want at most 2", n)
	}
}

func TestCertificatesFromTheFutureAreReplaced(t *testing.T) {
	hosts := []string{"publisher.kcp-system.svc"}
	ahead, _, err := renewData(nil, hosts, start.AddDate(1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	right, changed, err := renewData(ahead, hosts, start)
	if err != nil || !changed {
		t.Fatalf("certificates from the future: got changed %t and error %v, want true", changed, err)
	}
	if _, err := leaf(t, right).
		Verify(x509.VerifyOptions{Roots: pool(t, right[keyCA]), DNSName: hosts[0], CurrentTime: start}); err != nil {
		t.Error(err)
	}
}

func TestCertificatesAreReplacedWhenHostsChange(t *testing.T) {
	data, _, err := renewData(nil, []string{"a.example"}, start)
	if err != nil {
		t.Fatal(err)
	}
	next, changed, err := renewData(data, []string{"b.example"}, start)
	if err != nil || !changed || !bytes.Equal(next[keyCA], data[keyCA]) ||
		leaf(t, next).VerifyHostname("b.example") != nil {
		t.Errorf("certificates for another host: got changed %t and error %v, want true", changed, err)
	}
	data[keyCAKey] = []byte("nonsense")
	if next, changed, err = renewData(data, []string{"a.example"}, start); err != nil || !changed ||
		!bytes.Contains(next[keyCA], data[keyCA]) {
		t.Errorf("damaged Secret: got changed %t and error %v, want true", changed, err)
	}
}

func TestUnresolvableTemplatesAreRefused(t *testing.T) {
	const descriptor = `{"meta":{"schemaVersion":"v2"},"component":{"name":"a.io/b","version":"1.0.0","resources":[%s]}}`
	raw := `{"name":"raw-manifest","type":"yaml","access":{"type":"localBlob","localReference":"sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}}`
	for name, c := range map[string]struct{ version, descriptor, want string }{
		"template without a descriptor": {"1.0.0", "", ""},
		"empty descriptor":              {"1.0.0", "{}", ""},
		"valid descriptor":              {"1.0.0", fmt.Sprintf(descriptor, raw), ""},
		"descriptor with an unsupported schema": {
			"", `{"meta":{"schemaVersion":"v9"}}`, `spec.descriptor: component descriptor: meta.schemaVersion: "v9"`,
		},
		"descriptor with an invalid resource": {
			"", fmt.Sprintf(descriptor, `{"name":"raw-manifest","access":{"type":"localBlob","localReference":"x"}}`),
			"spec.descriptor: component descriptor: component.resources[0].access.localReference",
		},
		"descriptor for a different version": {
			"2.0.0", fmt.Sprintf(descriptor, raw), "spec.descriptor: version is 1.0.0, but spec.version is 2.0.0",
		},
		"descriptor without a resource to install": {
			"", fmt.Sprintf(descriptor, ""),
			"spec.descriptor: component a.io/b:1.0.0: component.resources: no resource to install",
		},
		"descriptor that is not an object": {"", `[]`, "spec.descriptor: component descriptor: "},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkTemplate(&v1beta2.ModuleTemplate{
				Spec: v1beta2.ModuleTemplateSpec{
					Version: c.version, Descriptor: runtime.RawExtension{Raw: []byte(c.descriptor)},
				},
			})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestWebhookAddressIsValidated(t *testing.T) {
	for name, o := range map[string]Options{
		"Service and URL": {Service: "a/b", URL: "https://c"}, "Service without a namespace": {Service: "b"},
		"invalid port":    {Service: "a/b:c"},
		"URL without TLS": {URL: "http://a"}, "URL without a host": {URL: "https://"},
	} {
		if _, _, err := o.webhookAddress(); err == nil {
			t.Errorf("%s: the address is accepted", name)
		}
	}
	hosts, at, err := Options{Service: "kcp-system/publisher:8443"}.webhookAddress()
	if err != nil || hosts[0] != "publisher.kcp-system.svc" ||
		fmt.Sprint(at("/x", nil)["service"]) != "map[name:publisher namespace:kcp-system path:/x port:8443]" {
		t.Errorf("got hosts %v, clientConfig %v, error %v", hosts, at("/x", nil), err)
	}
}

type apiServer struct {
	api    client.Client
	config *rest.Config
	scheme *runtime.Scheme
}

// startAPIServer starts an API server with the publisher's CRDs.
func startAPIServer(t *testing.T) apiServer {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set: run make test")
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme),
		v1beta2.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	environment := &envtest.Environment{
		CRDDirectoryPaths: []string{
			filepath.Join("..", "..", "..", "..", "charts", "kcp-publisher", "files", "crds"),
		},
		ErrorIfCRDPathMissing: true,
	}
	server, err := lender.Start(t.Context(), environment)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	api, err := client.New(server.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return apiServer{api, server.Config, scheme}
}

func served(t *testing.T) client.Client {
	t.Helper()
	server := startAPIServer(t)
	api := server.api
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(server.config, ctrl.Options{
		Scheme: server.scheme, Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kcp-system"}}); err != nil {
		t.Fatal(err)
	}
	if err := Setup(mgr,
		Options{Namespace: "kcp-system", URL: "https://" + address, BindAddress: address, Now: time.Now}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return api
}

func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	deadline := time.NewTimer(2 * time.Minute)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

func TestObjectsOfBothVersionsAreServed(t *testing.T) {
	api, ctx := served(t), t.Context()
	old := func(name, namespace string) *v1beta1.Kyma {
		return &v1beta1.Kyma{ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: name}, Spec: v1beta1.KymaSpec{
			Channel: "regular", Modules: []v1beta2.Module{
				{Name: "keda", Managed: true, CustomResourcePolicy: v1beta2.PolicyIgnore},
			},
			Sync: &v1beta1.Sync{
				Enabled: true, NoModuleCopy: true, ModuleCatalog: true, Namespace: namespace, Strategy: "secret",
			},
		}}
	}
	eventually(t, "a Kyma of v1beta1 is accepted", func() error {
		return client.IgnoreAlreadyExists(api.Create(ctx, old("one", "kyma-system")))
	})
	var recent v1beta2.Kyma
	eventually(t, "the Kyma is read as v1beta2", func() error {
		return api.Get(ctx, client.ObjectKey{Namespace: "kcp-system", Name: "one"}, &recent)
	})
	if recent.Annotations[v1beta2.AnnotationNoModuleCopy] != v1beta2.True || recent.Spec.Modules[0].Name != "keda" {
		t.Errorf("got Kyma %+v in v1beta2, want module keda and the annotation", recent)
	}
	recent.Spec.Channel = "fast"
	if err := api.Update(ctx, &recent); err != nil {
		t.Fatal(err)
	}
	var again v1beta1.Kyma
	if err := api.Get(ctx, client.ObjectKey{Namespace: "kcp-system", Name: "one"}, &again); err != nil ||
		again.Spec.Channel != "fast" || again.Spec.Sync == nil ||
		*again.Spec.Sync != *old("", "kyma-system").Spec.Sync || len(again.Annotations) != 0 {
		t.Errorf("read the Kyma as v1beta1: got %+v, %v", again, err)
	}
	if err := api.Create(ctx, old("two", "elsewhere")); err == nil ||
		!strings.Contains(err.Error(), "spec.sync.namespace") {
		t.Errorf("an unsupported sync namespace: got error %v", err)
	}
	template := &v1beta2.ModuleTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "keda-1.0.0"},
		Spec: v1beta2.ModuleTemplateSpec{
			ModuleName: "keda", Version: "1.0.0", Descriptor: runtime.RawExtension{
				Raw: []byte(`{"meta":{"schemaVersion":"v9"}}`),
			},
		}}
	eventually(t, "a template that cannot be resolved is refused", func() error {
		err := api.Create(ctx, template.DeepCopy())
		if err == nil {
			_ = api.Delete(ctx, template.DeepCopy())
			return errors.New("the template was accepted")
		}
		if !strings.Contains(err.Error(), "spec.descriptor: component descriptor: meta.schemaVersion") {
			return err
		}
		return nil
	})
	template.Spec.Descriptor.Raw = []byte("{}")
	if err := api.Create(ctx, template); err != nil {
		t.Fatal(err)
	}
	var older v1beta1.ModuleTemplate
	if err := api.Get(ctx, client.ObjectKeyFromObject(template), &older); err != nil ||
		older.Spec.Target != v1beta1.TargetRemote {
		t.Errorf("read the template as v1beta1: got %+v, %v", older, err)
	}
	if err := api.Update(ctx, &older); err != nil {
		t.Fatal(err)
	}
	if err := api.Get(ctx, client.ObjectKeyFromObject(template), template); err != nil ||
		len(template.Annotations) != 0 || template.Spec.Version != "1.0.0" {
		t.Errorf("read the template after an update as v1beta1: got %+v, %v", template, err)
	}
	broken := &v1beta2.Kyma{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kcp-system", Name: "three", Annotations: map[string]string{v1beta1.AnnotationSync: "{garbage"},
		},
		Spec: v1beta2.KymaSpec{Channel: "regular"},
	}
	var all v1beta1.KymaList
	if err := errors.Join(api.Create(ctx, broken), api.List(ctx, &all)); err != nil || len(all.Items) != 2 {
		t.Errorf("an invalid annotation of one Kyma prevents a list: error %v, Kymas %+v", err, all.Items)
	}
}
