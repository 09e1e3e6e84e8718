package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// checkInterval is the interval between checks of the API servers.
const checkInterval = 500 * time.Millisecond

// watch checks the fleet until ctx ends. It restarts programs that have exited.
func (s *stage) watch(ctx context.Context) {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.checkControlPlane(ctx)
		for id, sim := range s.simulated() {
			s.checker.Present(s.since(), id, sim.All())
		}
		for id, r := range s.reals {
			s.checkRuntime(ctx, id, r)
		}
		for id, duplicate := range s.duplicates() {
			s.checkRuntime(ctx, copyOf(id), duplicate)
		}
		for _, p := range s.programs {
			s.revive(p)
		}
	}
}

func (s *stage) simulated() map[string]*fleet.Simulated {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.sims)
}

func (s *stage) duplicates() map[string]*fleet.Runtime {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.copies)
}

// checkTimeout is the timeout of one check, so that an unreachable API server does not block the checker.
const checkTimeout = 5 * time.Second

func (s *stage) checkControlPlane(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var kymas v1beta2.KymaList
	if s.fleet.Control.List(ctx, &kymas, client.InNamespace(sample.Namespace)) == nil {
		var all []string
		for _, k := range kymas.Items {
			all = append(all, k.Name)
			s.checker.Recorded(s.since(), recordOf(&k))
		}
		s.checker.Listed(s.since(), all)
	}
	var rollouts v1alpha1.RolloutList
	if s.fleet.Control.List(ctx, &rollouts, client.InNamespace(sample.Namespace)) == nil {
		messages := map[string]string{}
		for _, r := range rollouts.Items {
			messages[r.Name] = r.Status.Message
		}
		for _, r := range s.checker.Rollouts(s.since(), observedRollouts(rollouts.Items)) {
			s.story.Add("rollout %s of %s is %s: %s", r.Rollout, r.To, r.State, messages[r.Rollout])
		}
	}
}

// observedRollouts converts rollouts to observations, oldest first.
func observedRollouts(rollouts []v1alpha1.Rollout) (all []ObservedRollout) {
	slices.SortFunc(rollouts, func(a, b v1alpha1.Rollout) int { return cmp.Compare(a.Spec.Revision, b.Spec.Revision) })
	for _, r := range rollouts {
		s := ObservedRollout{
			Rollout: r.Name, From: r.Spec.From, To: r.Spec.To, State: string(r.Status.State),
			Updated: int(r.Status.Updated), Mistyped: isMistyped(r.Spec.Course),
		}
		for _, wave := range r.Status.Waves {
			s.Granted = append(s.Granted, wave.Granted...)
		}
		all = append(all, s)
	}
	return all
}

func recordOf(k *v1beta2.Kyma) Record {
	r := Record{Runtime: k.Name, UID: string(k.UID), State: string(k.Status.State)}
	for _, m := range k.Status.Modules {
		if m.State == v1beta2.StateReady {
			r.Ready = append(r.Ready, m.Name)
		}
	}
	status := k.Status.Runtime
	if status == nil {
		return r
	}
	r.Report, r.Quarantined = status.ReportSequence, quarantined(status)
	if requested := status.Requested; requested != nil && requested.Instance != "" { // other requests change no modules
		r.Requests = []string{}
		for _, m := range requested.Spec.Modules {
			r.Requests = append(r.Requests, m.Name)
		}
	}
	if status.Published != nil {
		r.Epoch, r.Published = status.Published.Epoch, status.Published.Sequence
	}
	if status.Observed != nil {
		r.Observed, r.ObservedEpoch = status.Observed.Sequence, status.Observed.Epoch
		r.ObservedDigest = status.Observed.Digest
	}
	if status.Key != nil {
		r.Key = status.Key.Thumbprint
	}
	return r
}

func (s *stage) checkRuntime(ctx context.Context, id string, r *fleet.Runtime) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if modules, err := installed(ctx, r); err == nil {
		s.checker.Present(s.since(), id, modules)
	}
	for module := range objectsOf {
		if objects, err := objectsIn(ctx, r, module); err == nil {
			s.checker.Objects(s.since(), id, module, objects)
		}
	}
	s.checkUsers(ctx, id, r)
}

func installed(ctx context.Context, r *fleet.Runtime) (map[string]string, error) {
	var manifests v1beta2.ManifestList
	if err := r.API.List(ctx, &manifests); err != nil {
		return nil, err
	}
	modules := map[string]string{}
	for _, m := range manifests.Items {
		modules[m.Name] = m.Spec.Version
	}
	return modules, nil
}

// objectsOf lists the objects that every version of a module contains.
var objectsOf = map[string][]client.Object{
	scaler: {
		definition(scalers), &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "sample.kyma-pull.dev/v1", Kind: "Scaler"},
			ObjectMeta: inKymaSystem("default"),
		},
		&corev1.ServiceAccount{ObjectMeta: inKymaSystem("scaler-manager")}, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "scaler-manager"},
		},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "scaler-manager"}},
		&corev1.ConfigMap{ObjectMeta: inKymaSystem("scaler-settings")}, &appsv1.Deployment{
			ObjectMeta: inKymaSystem("scaler-manager"),
		},
	},
	mailer: {
		&corev1.ConfigMap{ObjectMeta: inKymaSystem("mailer-settings")},
		&appsv1.Deployment{ObjectMeta: inKymaSystem("mailer")},
	},
}

// scalers and manifests are the names of CRDs in runtimes.
const scalers, manifests = "scalers.sample.kyma-pull.dev", "manifests." + v1beta2.Group

func inKymaSystem(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: name}
}

func nameOf(o client.Object) string {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1.")
	}
	return kind + " " + o.GetName()
}

// objectsIn returns the UIDs of a module's objects by name. After an error, the result is incomplete.
func objectsIn(ctx context.Context, r *fleet.Runtime, module string) (map[string]string, error) {
	found := map[string]string{}
	for _, o := range objectsOf[module] {
		has := o.DeepCopyObject().(client.Object)
		if o.GetObjectKind().GroupVersionKind().Kind != "" {
			has = metadataOf(o)
		}
		err := r.API.Get(ctx, client.ObjectKeyFromObject(o), has)
		_, isDefined := found[nameOf(definition(scalers))]
		switch {
		case err == nil:
			found[nameOf(o)] = string(has.GetUID())
		case isUnserved(err) && isDefined:
			return nil, err // objects can exist even while their kind is not served
		case !isUnserved(err) && !apierrors.IsNotFound(err):
			return nil, err
		}
	}
	return found, nil
}

// isUnserved reports whether an error means that the API server does not serve a kind.
func isUnserved(err error) bool {
	if meta.IsNoMatchError(err) {
		return true
	}
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil &&
		slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
			return c.Type == metav1.CauseTypeUnexpectedServerResponse
		})
}

// revive restarts a program that ended, for example because it lost its Lease.
func (s *stage) revive(p *program) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if running, knows := p.runs.(interface{ Running() bool }); p.down || !knows || running.Running() {
		return
	}
	s.story.Add("%s ended by itself and is restarted", p.name)
	again, err := p.start()
	if err != nil {
		s.story.Add("%s cannot be started: %v", p.name, err)
		return
	}
	p.runs = again
}

// sample returns the current memory usage and number of goroutines of each program.
func (s *stage) sample(ctx context.Context) []Sample {
	var samples []Sample
	for _, p := range s.programs {
		p.mu.Lock()
		runs := p.runs
		p.mu.Unlock()
		measured, knows := runs.(interface{ MemoryBytes() (int64, error) })
		if !knows {
			continue
		}
		bytes, err := measured.MemoryBytes()
		goroutines, unread := goroutines(ctx, p.metrics)
		if err != nil || unread != nil {
			s.story.Add("reading the memory and goroutines of the %s failed: %v, %v", p.name, err, unread)
			continue
		}
		samples = append(samples, Sample{p.name, p.role, bytes, goroutines})
	}
	return samples
}

func goroutines(ctx context.Context, address string) (int, error) {
	values, err := readMetrics(ctx, http.DefaultClient, "http://"+address+"/metrics")
	if err != nil {
		return 0, err
	}
	n, known := values["go_goroutines"]
	if !known {
		return 0, fmt.Errorf("%s does not export metric go_goroutines", address)
	}
	return int(n), nil
}

// quarantined reports whether the publisher has stopped publishing because two agents use the runtime's key.
func quarantined(status *v1beta2.RuntimeStatus) bool {
	return status.Agent != nil && status.Agent.Clone != "" && status.Reasons != nil &&
		status.Reasons.Publish == v1beta2.Reason(reason.CloneDetected)
}
