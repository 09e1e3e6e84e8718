package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

func newSecretCache(mgr ctrl.Manager, namespace string) (cache.Cache, error) {
	labeled, err := labels.NewRequirement(v1beta2.LabelSecretFor, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	secrets, err := newNamespaceCache(mgr, namespace,
		cache.Options{DefaultLabelSelector: labels.NewSelector().Add(*labeled)})
	if err != nil {
		return nil, err
	}
	err = secrets.IndexField(context.Background(), &corev1.Secret{}, indexRuntime, func(object client.Object) []string {
		return []string{object.GetLabels()[v1beta2.LabelSecretFor]}
	})
	if err != nil {
		return nil, err
	}
	return secrets, nil
}

func newNamespaceCache(mgr ctrl.Manager, namespace string, options cache.Options) (cache.Cache, error) {
	options.HTTPClient, options.Scheme, options.Mapper = mgr.GetHTTPClient(), mgr.GetScheme(), mgr.GetRESTMapper()
	options.DefaultTransform, options.DefaultNamespaces = cache.TransformStripManagedFields(),
		map[string]cache.Config{namespace: {}}
	found, err := cache.New(mgr.GetConfig(), options)
	if err != nil {
		return nil, err
	}
	return found, mgr.Add(found)
}

func (k *Kymas) requestsForSecret(ctx context.Context, secret *corev1.Secret) []ctrl.Request {
	var kymas v1beta2.KymaList
	runtime := secret.Labels[v1beta2.LabelSecretFor]
	if err := k.Client.List(ctx, &kymas, client.InNamespace(k.Catalog.Namespace),
		client.MatchingFields{indexRuntime: runtime}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to find the Kymas for a changed Secret", "runtime", runtime)
		return nil
	}
	k.logUnknownRuntime(ctx, secret, len(kymas.Items) > 0)
	var requests []ctrl.Request
	for _, kyma := range kymas.Items {
		name := types.NamespacedName{Namespace: kyma.Namespace, Name: kyma.Name}
		k.fleet.Edit(name, func(r *fleetstate.Runtime) { r.ChangedCount++ })
		requests = append(requests, ctrl.Request{NamespacedName: name})
	}
	return requests
}

func (k *Kymas) logUnknownRuntime(ctx context.Context, secret *corev1.Secret, known bool) {
	subject, runtime := secret.Namespace+"/"+secret.Name, secret.Labels[v1beta2.LabelSecretFor]
	if known {
		k.loggedSecrets.Delete(subject)
		return
	}
	if before, isKnown := k.loggedSecrets.Swap(subject, runtime); isKnown && before == runtime {
		return
	}
	ctrl.LoggerFrom(ctx).Info("a Secret is for an unknown runtime and is not delivered: correct its label "+
		v1beta2.LabelSecretFor+", or create the Kyma",
		"secret", subject, "runtime", runtime, "namespace", k.Catalog.Namespace)
}

// addSecrets adds the Secrets for the runtime's next bundle to r. If the publisher refused the runtime's latest report,
// it does not add Secrets. problem is the reason why some Secrets cannot be published. If the Kyma is being deleted,
// an error is only a problem, because the deletion must not wait and needs only the recorded names.
func (k *Kymas) addSecrets(
	ctx context.Context, kyma *v1beta2.Kyma, r *plan.Runtime, newest fleetstate.Report,
) (problem, err error) {
	if newest.Accepted == nil || newest.Refused != nil || newest.Accepted.Runtime != r.ID || r.Key == nil {
		return nil, nil
	}
	if status := kyma.Status.Runtime; r.IsDeleting && len(status.Secrets) > 0 {
		r.Secrets = &plan.RuntimeSecrets{
			Recipient: status.Key.Recipient, RecordedNames: status.Secrets, IsPartial: true,
		}
	}
	if k.secrets == nil && k.pullSecrets == nil {
		return nil, nil
	}
	if problem, err = k.readSecrets(ctx, kyma, r); err != nil && r.IsDeleting {
		return err, nil
	}
	return problem, err
}

func (k *Kymas) readSecrets(ctx context.Context, kyma *v1beta2.Kyma, r *plan.Runtime) (problem, err error) {
	var there corev1.SecretList
	if k.secrets != nil {
		if err := k.secrets.List(ctx, &there, client.InNamespace(k.SecretsNamespace),
			client.MatchingFields{indexRuntime: r.ID}); err != nil {
			return nil, fmt.Errorf("list Secrets for runtime %s: %w", r.ID, err)
		}
	}
	pull, pullProblem, err := k.readPullSecret(ctx)
	if err != nil {
		return nil, err
	}
	status := kyma.Status.Runtime
	all, problem := runtimeSecrets(slices.Concat(pull, there.Items))
	problem = errors.Join(pullProblem, problem)
	status.Secrets = ingest.KnownSecrets(status.Secrets, all, ingest.Facts{})
	r.Secrets = &plan.RuntimeSecrets{
		Recipient: status.Key.Recipient, Published: all, KnownNames: status.Secrets,
		RecordedNames: status.Secrets, IsPartial: k.secrets == nil,
	}
	if problem != nil || k.secrets == nil {
		// a Secret that is invalid or could not be read must not be removed from the runtime
		r.Secrets.KnownNames = ingest.KnownSecrets(nil, all, ingest.Facts{})
	}
	return problem, nil
}

// runtimeSecrets converts the control plane's Secrets to the Secrets for a runtime's bundle. It omits invalid Secrets
// and returns an error that lists them. If two Secrets would have the same name in the runtime, it omits the newer one.
func runtimeSecrets(secrets []corev1.Secret) ([]bundle.RuntimeSecret, error) {
	byAge := slices.SortedFunc(slices.Values(secrets), func(a, b corev1.Secret) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	var all []bundle.RuntimeSecret
	var problems []error
	from := map[string]string{}
	for i := range byAge {
		secret := &byAge[i]
		if !secret.DeletionTimestamp.IsZero() {
			continue
		}
		next := newRuntimeSecret(secret)
		if err := next.Check(); err != nil {
			problems = append(problems,
				fmt.Errorf("Secret %s/%s cannot be delivered: %w", secret.Namespace, secret.Name, err))
			continue
		}
		if other := from[next.NamespacedName()]; other != "" {
			problems = append(problems,
				fmt.Errorf(
					"Secret %s/%s: its name in the runtime would be %s, which Secret %s already uses: change the "+
						"annotation %s", secret.Namespace, secret.Name, next.NamespacedName(), other, v1beta2.AnnotationSecretName))
			continue
		}
		from[next.NamespacedName()] = secret.Name
		all = append(all, next)
	}
	return all, errors.Join(problems...)
}

func newRuntimeSecret(secret *corev1.Secret) bundle.RuntimeSecret {
	return bundle.RuntimeSecret{
		Namespace: cmp.Or(secret.Annotations[v1beta2.AnnotationSecretNamespace], v1beta2.RuntimeNamespace),
		Name:      cmp.Or(secret.Annotations[v1beta2.AnnotationSecretName], secret.Name),
		Labels:    ownLabels(secret.Labels), Type: secret.Type, Data: secret.Data,
		Module: secret.Labels[v1beta2.LabelModuleName],
		// The revision does not depend on the Secret's content, because a digest would reveal information about the
		// content.
		Revision: string(secret.UID) + " " + secret.ResourceVersion,
	}
}

// ownLabels returns a Secret's labels without the labels that Kyma or kyma-pull use, such as labels with the prefix
// kyma-project.io.
func ownLabels(all map[string]string) map[string]string {
	own := maps.Clone(all)
	maps.DeleteFunc(own, func(key, _ string) bool {
		domain, _, _ := strings.Cut(key, "/")
		return domain == "kyma-pull.dev" || domain == "kyma-project.io" || domain == v1beta2.Group
	})
	return own
}

// newPullSecretCache returns a cache for the image pull Secret. The cache requires permission to read only this
// Secret.
func newPullSecretCache(mgr ctrl.Manager, secret types.NamespacedName) (cache.Cache, error) {
	return newNamespaceCache(mgr, secret.Namespace, cache.Options{
		DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", secret.Name),
	})
}

func (k *Kymas) requestsForAll(ctx context.Context, _ *corev1.Secret) []ctrl.Request {
	kymas, err := k.Catalog.markKymas(ctx)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to find the Kymas for a changed image pull Secret")
		return nil
	}
	requests := make([]ctrl.Request, 0, len(kymas))
	for i := range kymas {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&kymas[i])})
	}
	return requests
}

// readPullSecret returns the image pull Secret, if one is configured. problem is the reason why the Secret cannot be
// published.
func (k *Kymas) readPullSecret(ctx context.Context) (secrets []corev1.Secret, problem, err error) {
	if k.pullSecrets == nil {
		return nil, nil, nil
	}
	secret := &corev1.Secret{}
	err = k.pullSecrets.Get(ctx, k.ImagePullSecret, secret)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("read image pull Secret %s: %w", k.ImagePullSecret, err)
	}
	if apierrors.IsNotFound(err) || !secret.DeletionTimestamp.IsZero() {
		return nil,
			reason.Errorf(reason.SecretMissing,
				"image pull Secret %s not found: create it, or run without --image-pull-secret", k.ImagePullSecret), nil
	}
	if secret.Type != corev1.SecretTypeDockerConfigJson && secret.Type != corev1.SecretTypeDockercfg {
		return nil,
			reason.Errorf(reason.SecretMissing, "image pull Secret %s has type %q, must be %s", k.ImagePullSecret,
				secret.Type, corev1.SecretTypeDockerConfigJson), nil
	}
	return []corev1.Secret{withoutMetadata(secret)}, nil, nil
}

// withoutMetadata returns a copy of the Secret without annotations and without the module label. The annotations and
// the label could assign the Secret to one module or change its name in the runtime.
func withoutMetadata(secret *corev1.Secret) corev1.Secret {
	shared := *secret
	shared.Labels, shared.Annotations = maps.Clone(secret.Labels), nil
	delete(shared.Labels, v1beta2.LabelModuleName)
	return shared
}
