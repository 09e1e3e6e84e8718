package admission

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/metadata"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/manager"
	"github.com/kyma-pull/kyma-pull/internal/serve"
)

// Options configures the address at which the API server reaches the webhooks. Exactly one of Service and URL is
// required.
type Options struct {
	// Namespace is the namespace with the webhook certificates' Secret.
	Namespace string
	// Service is NAMESPACE/NAME or NAMESPACE/NAME:PORT of the publisher's Service.
	Service string
	// URL is an address such as https://127.0.0.1:9443.
	URL string
	// BindAddress is the address to listen on, such as :9443.
	BindAddress string
	Now         func() time.Time
}

const (
	pathConvert  = "/convert"
	pathTemplate = "/validate-moduletemplate"
	pathMeta     = "/validate-modulereleasemeta"
	pathCourse   = "/validate-course"
)

const (
	checkInterval = time.Hour
	// otherInterval is the interval at which a publisher checks whether another publisher's server still exists.
	otherInterval = time.Minute
	// minInterval is the least time between two checks. If two clients overwrite each other's changes to the watched
	// objects, it limits the writes.
	minInterval = 3 * time.Second
)

var crdKind = schema.GroupVersionKind{
	Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition",
}

const configurationName = "kcp-publisher.kyma-pull.dev"

// convertedResources lists the resources that the API server stores as v1beta2 and also serves as v1beta1. The first
// one's registration decides which publisher serves the webhooks.
var convertedResources = []string{"kymas", "manifests", "moduletemplates", "watchers"}

// registration writes the webhooks' addresses and CA certificates to the objects that configure the API server.
type registration struct {
	certificates *certificates
	metadata     metadata.Interface
	// clientConfig returns the value of the field clientConfig for the webhook at a URL path. authorities contains
	// the CA certificates that the API server must trust.
	clientConfig func(path string, authorities []byte) map[string]any
}

// Setup adds the webhooks to the manager. The manager's scheme must contain the API versions v1beta1 and v1beta2.
func Setup(mgr ctrl.Manager, options Options) error {
	hosts, at, err := options.webhookAddress()
	if err != nil {
		return err
	}
	uncached, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return fmt.Errorf("set up the webhooks: %w", err)
	}
	metadataClient, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("set up the webhooks: %w", err)
	}
	r := &registration{
		clientConfig: at, metadata: metadataClient, certificates: &certificates{
			client: uncached, namespace: options.Namespace, hosts: hosts, now: options.Now,
		},
	}
	handler, err := newHandler(mgr.GetScheme(), uncached)
	if err != nil {
		return fmt.Errorf("set up the webhooks: %w", err)
	}
	secure := &tls.Config{GetCertificate: r.certificates.getCertificate, MinVersion: tls.VersionTLS12}
	return errors.Join(serve.Add(mgr, "webhooks", options.BindAddress, secure, handler, requestLimits), mgr.Add(r))
}

func newHandler(scheme *runtime.Scheme, rollouts client.Reader) (http.Handler, error) {
	registry, err := newConverters(scheme)
	if err != nil {
		return nil, err
	}
	// Do not use controller-runtime's HTTP server, because it does not limit untrusted requests.
	mux := http.NewServeMux()
	server := webhook.NewServer(webhook.Options{WebhookMux: mux})
	server.Register(pathConvert, conversion.NewWebhookHandler(scheme, registry))
	server.Register(pathTemplate, &admission.Webhook{Handler: admission.HandlerFunc(validateTemplate)})
	server.Register(pathMeta, &admission.Webhook{Handler: promotions{rollouts}})
	server.Register(pathCourse, &admission.Webhook{Handler: admission.HandlerFunc(validateCourse)})
	return mux, nil
}

// requestLimits contains the limits for requests to the webhooks. A request contains up to two objects of at most 3 MiB
// each. A conversion needs about four times as much memory.
var requestLimits = serve.Limits{
	Connections: 200, HeaderBytes: 16 << 10, BodyBytes: 8 << 20, AllBodiesBytes: 32 << 20, Read: 20 * time.Second,
	Write: 30 * time.Second,
}

func newConverters(scheme *runtime.Scheme) (conversion.Registry, error) {
	registry := conversion.NewRegistry()
	for kind, make := range map[string]func(*runtime.Scheme) (conversion.Converter, error){
		"Kyma": conversion.NewHubSpokeConverter(&v1beta2.Kyma{},
			conversion.NewSpokeConverter(&v1beta1.Kyma{}, v1beta1.KymaFromHub, v1beta1.KymaToHub)),
		"ModuleTemplate": conversion.NewHubSpokeConverter(&v1beta2.ModuleTemplate{},
			conversion.NewSpokeConverter(&v1beta1.ModuleTemplate{}, v1beta1.ModuleTemplateFromHub,
				v1beta1.ModuleTemplateToHub)),
		"Manifest": conversion.NewHubSpokeConverter(&v1beta2.Manifest{},
			conversion.NewSpokeConverter(&v1beta1.Manifest{}, v1beta1.ManifestFromHub, v1beta1.ManifestToHub)),
		"Watcher": conversion.NewHubSpokeConverter(&v1beta2.Watcher{},
			conversion.NewSpokeConverter(&v1beta1.Watcher{}, v1beta1.WatcherFromHub, v1beta1.WatcherToHub)),
	} {
		converter, err := make(scheme)
		if err != nil {
			return nil, err
		}
		if err := registry.RegisterConverter(schema.GroupKind{Group: v1beta2.Group, Kind: kind},
			converter); err != nil {
			return nil, err
		}
	}
	return registry, nil
}

func (o Options) webhookAddress() (hosts []string, clientConfig func(path string, authorities []byte) map[string]any,
	err error) {
	switch {
	case o.Service != "" && o.URL != "":
		return nil, nil, errors.New("--webhook-service and --webhook-url: set only one of them")
	case o.Service != "":
		name, port, hasPort := strings.Cut(o.Service, ":")
		namespace, name, ok := strings.Cut(name, "/")
		number := int64(443)
		if hasPort {
			number, err = strconv.ParseInt(port, 10, 32)
		}
		if !ok || namespace == "" || name == "" || err != nil {
			return nil, nil,
				fmt.Errorf("--webhook-service %q: must be NAMESPACE/NAME or NAMESPACE/NAME:PORT", o.Service)
		}
		return []string{name + "." + namespace + ".svc", name + "." + namespace + ".svc.cluster.local"},
			func(path string, authorities []byte) map[string]any {
				return map[string]any{
					"caBundle": base64.StdEncoding.EncodeToString(authorities), "service": map[string]any{
						"namespace": namespace, "name": name, "port": number, "path": path,
					},
				}
			}, nil
	}
	base, err := url.Parse(o.URL)
	if err != nil || base.Scheme != "https" || base.Hostname() == "" {
		return nil, nil, fmt.Errorf("--webhook-url %q: must be https://HOST:PORT", o.URL)
	}
	return []string{base.Hostname()}, func(path string, authorities []byte) map[string]any {
		return map[string]any{
			"caBundle": base64.StdEncoding.EncodeToString(authorities), "url": base.JoinPath(path).String(),
		}
	}, nil
}

// NeedLeaderElection returns false, because every replica serves the webhooks.
func (r *registration) NeedLeaderElection() bool { return false }

// Start keeps the certificates and the webhook configuration up to date until the context ends. It checks them at the
// start, after each change to a watched object, and every checkInterval.
func (r *registration) Start(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	for _, watched := range r.watchedObjects() {
		err := manager.WatchChanges(ctx, r.metadata, watched, func(*metav1.PartialObjectMetadata, bool) {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
		if err != nil {
			return err
		}
	}
	var other server
	retry := retryBackoff
	repeat(ctx, changed, func() time.Duration {
		found, err := r.register(ctx)
		if err != nil && ctx.Err() == nil {
			next := retry.Step()
			ctrl.Log.Error(err, "failed to register the webhooks, v1beta1 might not be served, retrying", "in",
				next.Round(time.Second).String())
			return next
		}
		previous := other
		other, retry = found, retryBackoff
		if other == (server{}) {
			return checkInterval
		}
		if other != previous {
			ctrl.Log.Info("another publisher serves the webhooks, waiting for the removal of its Service or URL",
				"server", other.String())
		}
		return otherInterval
	})
	return nil
}

// repeat calls check until the context ends: after each change, and after the time that the previous call returned. It
// waits at least minInterval between two calls, or less if a call returned less.
func repeat(ctx context.Context, changed <-chan struct{}, check func() time.Duration) {
	for {
		next := check()
		pause := min(next, minInterval)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-time.After(next - pause):
		}
	}
}

var retryBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 10, Cap: time.Minute}

func (r *registration) watchedObjects() []manager.Watched {
	configurations := schema.GroupVersionResource{
		Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations",
	}
	crds := schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
	all := []manager.Watched{
		{
			Resource: corev1.SchemeGroupVersion.WithResource("secrets"), Namespace: r.certificates.namespace,
			Name: secretName,
		},
		{Resource: configurations, Name: configurationName},
	}
	for _, plural := range convertedResources {
		all = append(all, manager.Watched{Resource: crds, Name: plural + "." + v1beta2.Group})
	}
	return all
}

// register writes the certificates and the registration, unless another publisher serves the webhooks. It then returns
// this publisher's server.
func (r *registration) register(ctx context.Context) (other server, err error) {
	other, err = r.otherServer(ctx)
	if err != nil || other != (server{}) {
		return other, err
	}
	authorities, err := r.certificates.ensure(ctx)
	if err != nil {
		return server{}, err
	}
	for _, plural := range convertedResources {
		if err := r.registerConversion(ctx, plural+"."+v1beta2.Group, authorities); err != nil {
			return server{}, err
		}
	}
	return server{}, r.registerValidation(ctx, authorities)
}

func (r *registration) registerConversion(ctx context.Context, name string, authorities []byte) error {
	return r.editObject(ctx, crdKind, name,
		func(crd map[string]any) error {
			versions, _, err := unstructured.NestedSlice(crd, "spec", "versions")
			if err != nil {
				return err
			}
			for _, v := range versions {
				if version, ok := v.(map[string]any); ok && version["name"] == v1beta1.GroupVersion.Version {
					version["served"] = true
				}
			}
			if err := unstructured.SetNestedSlice(crd, versions, "spec", "versions"); err != nil {
				return err
			}
			return unstructured.SetNestedMap(crd, map[string]any{
				"strategy": "Webhook",
				"webhook": map[string]any{
					"clientConfig": r.clientConfig(pathConvert, authorities), "conversionReviewVersions": []any{"v1"},
				},
			}, "spec", "conversion")
		})
}

// registerValidation writes the configuration for the validating webhooks. While the publisher is down, the API server
// accepts all objects.
func (r *registration) registerValidation(ctx context.Context, authorities []byte) error {
	const name = configurationName
	gvk := schema.GroupVersionKind{
		Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration",
	}
	change := func(object map[string]any) error {
		return unstructured.SetNestedSlice(object, []any{
			r.newWebhook(v1beta2.GroupVersion, "moduletemplates", pathTemplate, authorities),
			r.newWebhook(v1beta2.GroupVersion, "modulereleasemetas", pathMeta, authorities),
			r.newWebhook(fleet.GroupVersion, "rolloutpolicies", pathCourse, authorities),
			r.newWebhook(fleet.GroupVersion, "rollouts", pathCourse, authorities),
		}, "webhooks")
	}
	if err := r.editObject(ctx, gvk, name, change); !apierrors.IsNotFound(err) {
		return err
	}
	// Normally, the Helm chart creates this configuration, and the publisher lacks the permission to create it. Without
	// the chart, the publisher may have the permission.
	configuration := &unstructured.Unstructured{}
	configuration.SetGroupVersionKind(gvk)
	configuration.SetName(name)
	if err := r.certificates.client.Create(ctx, configuration); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %s %s (normally created by rbac/webhooks.yaml in the chart): %w", gvk.Kind, name, err)
	}
	return r.editObject(ctx, gvk, name, change)
}

func (r *registration) newWebhook(
	group schema.GroupVersion, resource, path string, authorities []byte,
) map[string]any {
	return map[string]any{
		"name": resource + "." + configurationName, "admissionReviewVersions": []any{"v1"}, "sideEffects": "None",
		"failurePolicy":  "Ignore",
		"timeoutSeconds": int64(5), "matchPolicy": "Equivalent", "clientConfig": r.clientConfig(path, authorities),
		"namespaceSelector": map[string]any{}, "objectSelector": map[string]any{},
		"rules": []any{map[string]any{
			"apiGroups": []any{group.Group}, "apiVersions": []any{group.Version},
			"resources":  []any{resource},
			"operations": []any{"CREATE", "UPDATE"}, "scope": "*",
		}},
	}
}

func (r *registration) editObject(
	ctx context.Context, gvk schema.GroupVersionKind, name string, change func(map[string]any) error,
) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk)
	if err := r.certificates.client.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
		return fmt.Errorf("read %s %s: %w", gvk.Kind, name, err)
	}
	before := object.DeepCopy()
	if err := change(object.Object); err != nil {
		return fmt.Errorf("change %s %s: %w", gvk.Kind, name, err)
	}
	if equality.Semantic.DeepEqual(before.Object, object.Object) {
		return nil
	}
	if err := r.certificates.client.Patch(ctx, object, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("change %s %s: %w", gvk.Kind, name, err)
	}
	return nil
}
