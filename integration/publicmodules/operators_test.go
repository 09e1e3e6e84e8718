package publicmodules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// operators do the work of Kubernetes' controllers and of the modules' operators. They complete Jobs, scale workloads,
// route webhook and API Services to the server, inject the server's CA, and finalize namespaces.
type operators struct {
	api    client.Client
	server *server
	// converts is true if the module's CRDs have conversion webhooks.
	converts bool
	// trouble is the last error. Errors are temporary if an object changes or disappears concurrently.
	trouble error
}

// start runs the operators until the test ends.
func (o *operators) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			o.trouble = o.reconcile(ctx)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if t.Failed() && o.trouble != nil && !errors.Is(o.trouble, context.Canceled) {
			t.Logf("simulated operators: %v", o.trouble)
		}
	})
}

func (o *operators) reconcile(ctx context.Context) error {
	return errors.Join(o.completeJobs(ctx), o.scale(ctx), o.serveWebhooks(ctx), o.serveConversions(ctx), o.serveAPIs(ctx),
		o.deleteUnusedEndpoints(ctx), o.finalizeNamespaces(ctx))
}

func (o *operators) completeJobs(ctx context.Context) error {
	var jobs batchv1.JobList
	if err := o.api.List(ctx, &jobs); err != nil {
		return err
	}
	var problems []error
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if job.Status.CompletionTime != nil {
			continue
		}
		now := metav1.Now()
		job.Status = batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1}
		for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
			job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
				Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now,
			})
		}
		problems = append(problems, o.api.Status().Update(ctx, job))
	}
	return errors.Join(problems...)
}

// autoscaled is a number of replicas that no module sets.
const autoscaled = 3

// scale sets the replicas on Deployments with a HorizontalPodAutoscaler.
func (o *operators) scale(ctx context.Context) error {
	var autoscalers autoscalingv2.HorizontalPodAutoscalerList
	if err := o.api.List(ctx, &autoscalers); err != nil {
		return err
	}
	var problems []error
	for _, a := range autoscalers.Items {
		var workload appsv1.Deployment
		key := client.ObjectKey{Namespace: a.Namespace, Name: a.Spec.ScaleTargetRef.Name}
		if err := o.api.Get(ctx, key, &workload); err != nil || *workload.Spec.Replicas == autoscaled {
			problems = append(problems, client.IgnoreNotFound(err))
			continue
		}
		scale := &autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: workload.Name},
			Spec:       autoscalingv1.ScaleSpec{Replicas: autoscaled},
		}
		problems = append(problems, o.api.SubResource("scale").Update(ctx, &workload, client.WithSubResourceBody(scale)))
	}
	return errors.Join(problems...)
}

func (o *operators) serveWebhooks(ctx context.Context) error {
	var validating admissionv1.ValidatingWebhookConfigurationList
	var mutating admissionv1.MutatingWebhookConfigurationList
	if err := errors.Join(o.api.List(ctx, &validating), o.api.List(ctx, &mutating)); err != nil {
		return err
	}
	var problems []error
	for i := range validating.Items {
		all := &validating.Items[i]
		var configs []*admissionv1.WebhookClientConfig
		for n := range all.Webhooks {
			configs = append(configs, &all.Webhooks[n].ClientConfig)
		}
		problems = append(problems, o.inject(ctx, all, configs))
	}
	for i := range mutating.Items {
		all := &mutating.Items[i]
		var configs []*admissionv1.WebhookClientConfig
		for n := range all.Webhooks {
			configs = append(configs, &all.Webhooks[n].ClientConfig)
		}
		problems = append(problems, o.inject(ctx, all, configs))
	}
	return errors.Join(problems...)
}

// inject sets the server's CA in an object's webhooks, and routes their Services to the server.
func (o *operators) inject(
	ctx context.Context, object client.Object, webhooks []*admissionv1.WebhookClientConfig,
) error {
	changed := false
	for _, w := range webhooks {
		if w.Service == nil {
			continue
		}
		if err := o.route(ctx, w.Service.Namespace, w.Service.Name); err != nil {
			return err
		}
		changed = changed || !bytes.Equal(w.CABundle, o.server.ca)
		w.CABundle = o.server.ca
	}
	if !changed {
		return nil
	}
	return o.api.Update(ctx, object)
}

func (o *operators) serveConversions(ctx context.Context) error {
	if !o.converts { // lists of CRDs are large
		return nil
	}
	var definitions apiextensionsv1.CustomResourceDefinitionList
	if err := o.api.List(ctx, &definitions); err != nil {
		return err
	}
	var problems []error
	for i := range definitions.Items {
		d := &definitions.Items[i]
		if d.Spec.Conversion == nil || d.Spec.Conversion.Webhook == nil || d.Spec.Conversion.Webhook.ClientConfig == nil ||
			d.Spec.Conversion.Webhook.ClientConfig.Service == nil {
			continue
		}
		config := d.Spec.Conversion.Webhook.ClientConfig
		problems = append(problems, o.route(ctx, config.Service.Namespace, config.Service.Name))
		if !bytes.Equal(config.CABundle, o.server.ca) {
			config.CABundle = o.server.ca
			problems = append(problems, o.api.Update(ctx, d))
		}
	}
	return errors.Join(problems...)
}

func (o *operators) serveAPIs(ctx context.Context) error {
	var services unstructured.UnstructuredList
	services.SetGroupVersionKind(schema.GroupVersionKind{
		Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIServiceList",
	})
	if err := o.api.List(ctx, &services); err != nil {
		return err
	}
	var problems []error
	for i := range services.Items {
		s := &services.Items[i]
		namespace, _, _ := unstructured.NestedString(s.Object, "spec", "service", "namespace")
		name, _, _ := unstructured.NestedString(s.Object, "spec", "service", "name")
		if name == "" {
			continue
		}
		problems = append(problems, o.route(ctx, namespace, name))
		insecure, _, _ := unstructured.NestedBool(s.Object, "spec", "insecureSkipTLSVerify")
		bundle, _, _ := unstructured.NestedString(s.Object, "spec", "caBundle")
		if !insecure && bundle == "" {
			patch := fmt.Appendf(nil, `{"spec":{"caBundle":%q}}`, encode(o.server.ca))
			problems = append(problems, o.api.Patch(ctx, s, client.RawPatch("application/merge-patch+json", patch)))
		}
	}
	return errors.Join(problems...)
}

// route creates an EndpointSlice that routes all of a Service's ports to the server.
func (o *operators) route(ctx context.Context, namespace, name string) error {
	var service corev1.Service
	if err := o.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &service); err != nil {
		return client.IgnoreNotFound(err)
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(&service, corev1.SchemeGroupVersion.WithKind("Service")),
			},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{o.server.address.Addr().String()},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		}},
	}
	for _, p := range service.Spec.Ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{
			Name: new(p.Name), Protocol: new(corev1.ProtocolTCP), Port: new(int32(o.server.address.Port())),
		})
	}
	return client.IgnoreAlreadyExists(o.api.Create(ctx, slice))
}

// deleteUnusedEndpoints deletes the EndpointSlices of deleted Services.
func (o *operators) deleteUnusedEndpoints(ctx context.Context) error {
	var slicesOf discoveryv1.EndpointSliceList
	if err := o.api.List(ctx, &slicesOf); err != nil {
		return err
	}
	var problems []error
	for i := range slicesOf.Items {
		s := &slicesOf.Items[i]
		if len(s.OwnerReferences) == 0 {
			continue
		}
		err := o.api.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.OwnerReferences[0].Name}, &corev1.Service{})
		if apierrors.IsNotFound(err) {
			problems = append(problems, client.IgnoreNotFound(o.api.Delete(ctx, s)))
		}
	}
	return errors.Join(problems...)
}

// finalizeNamespaces removes deleted namespaces. It does not delete objects, because each module must delete its own
// objects.
func (o *operators) finalizeNamespaces(ctx context.Context) error {
	var namespaces corev1.NamespaceList
	if err := o.api.List(ctx, &namespaces); err != nil {
		return err
	}
	var problems []error
	for i := range namespaces.Items {
		n := &namespaces.Items[i]
		if n.DeletionTimestamp.IsZero() || !slices.Contains(n.Spec.Finalizers, corev1.FinalizerKubernetes) {
			continue
		}
		n.Spec.Finalizers = nil
		problems = append(problems, o.api.SubResource("finalize").Update(ctx, n))
	}
	return errors.Join(problems...)
}
