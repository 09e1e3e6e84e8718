package controller

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// A fleet's Kymas and reports say nearly the same, many thousand times: what is equal is held once. What is held is never changed in place.
var (
	askedModules    held[[]v1beta2.Module]
	knownModules    held[[]v1beta2.ModuleStatus]
	reportedModules held[[]bundle.ReportedModule]
	knownVersions   held[map[string]string]
	knownChanges    held[[]v1beta2.VersionChange]
	trackedObjects  held[*v1beta2.TrackingObject]
	texts           held[string]
)

// maxHeldBytes bounds, as JSON, the different values of one kind that are looked for among those to come, and maxOneBytes each of them: whoever holds a
// runtime's key can report another large one each time. entryBytes is what each costs besides. What is in use stays where it is used.
const (
	maxHeldBytes = 4 << 20
	maxOneBytes  = 16 << 10
	entryBytes   = 256
)

// held are the different values of one kind, as JSON tells them apart. It is safe for concurrent use.
type held[T any] struct {
	mu     sync.Mutex // guards what follows
	values map[[sha256.Size]byte]T
	bytes  int
}

// one returns an equal value, the first of all that were asked for. keep returns the value to be kept where there is none.
func (h *held[T]) one(value T, keep func(T) T) T {
	text := encodedOf(value)
	if len(text) > maxOneBytes {
		return keep(value)
	}
	key := sha256.Sum256(text)
	h.mu.Lock()
	defer h.mu.Unlock()
	known, is := h.values[key]
	if is {
		return known
	}
	if h.values == nil || h.bytes+len(text)+entryBytes > maxHeldBytes {
		h.values, h.bytes = map[[sha256.Size]byte]T{}, 0
	}
	known = keep(value)
	h.values[key] = known
	h.bytes += len(text) + entryBytes
	return known
}

// encodedOf returns plain data as JSON.
func encodedOf(data any) []byte {
	text, err := json.Marshal(data)
	if err != nil {
		panic("plain data always encodes: " + err.Error())
	}
	return text
}

// Slim makes of a Kyma that was read what the publisher's cache keeps of it: without what nothing here reads, and sharing what others have as well.
// It is the cache's transform.
func Slim(object any) (any, error) {
	kyma, is := object.(*v1beta2.Kyma)
	if !is {
		return object, nil
	}
	kyma.ManagedFields = nil
	delete(kyma.Annotations, corev1.LastAppliedConfigAnnotation)
	kyma.APIVersion, kyma.Kind = common(kyma.APIVersion), common(kyma.Kind)
	kyma.Namespace, kyma.Finalizers = common(kyma.Namespace), slices.Clone(kyma.Finalizers)
	kyma.Spec.Modules = slimAsked(kyma.Spec.Modules)
	status := &kyma.Status
	status.Modules = knownModules.one(status.Modules, slimKnown)
	status.Conditions = slices.Clone(status.Conditions)
	for i := range status.Conditions {
		c := &status.Conditions[i]
		c.Type, c.Reason, c.Status = common(c.Type), common(c.Reason), metav1.ConditionStatus(common(string(c.Status)))
		if c.Status == metav1.ConditionTrue {
			c.Message = common(c.Message)
		}
	}
	if r := status.Runtime; r != nil {
		slimRuntime(r)
	}
	return kyma, nil
}

func slimRuntime(r *v1beta2.RuntimeStatus) {
	if r.Requested != nil {
		r.Requested.Spec.Modules = slimAsked(r.Requested.Spec.Modules)
	}
	if r.Published != nil && len(r.Published.Versions) > 0 {
		r.Published.Versions = knownVersions.one(r.Published.Versions, func(all map[string]string) map[string]string { return all })
	}
	for i := range r.History {
		b := &r.History[i]
		b.Commit, b.State = common(b.Commit), v1beta2.State(common(string(b.State)))
		if len(b.Changes) > 0 {
			b.Changes = knownChanges.one(b.Changes, func(all []v1beta2.VersionChange) []v1beta2.VersionChange { return all })
		}
	}
	if r.Observed != nil {
		r.Observed.AgentVersion, r.Observed.KubernetesVersion = common(r.Observed.AgentVersion), common(r.Observed.KubernetesVersion)
	}
}

// slimReport is Slim for what is kept of an accepted report.
func slimReport(report *bundle.AcceptedReport) {
	report.AgentVersion, report.KubernetesVersion, report.Fleet = common(report.AgentVersion), common(report.KubernetesVersion), common(report.Fleet)
	report.Certificate = "" // it was what the key is known by, and is not asked for again
	if report.Kyma != nil {
		report.Kyma.Spec.Modules = slimAsked(report.Kyma.Spec.Modules)
	}
	report.Modules = reportedModules.one(report.Modules, func(all []bundle.ReportedModule) []bundle.ReportedModule {
		all = slices.Clone(all)
		for i := range all {
			m := &all[i]
			m.Name, m.Channel, m.Version, m.Wanted = common(m.Name), common(m.Channel), common(m.Version), common(m.Wanted)
			m.State, m.Manifest, m.Resource = v1beta2.State(common(string(m.State))), slimObject(m.Manifest), slimObject(m.Resource)
		}
		return all
	})
}

func slimAsked(modules []v1beta2.Module) []v1beta2.Module {
	return askedModules.one(modules, func(all []v1beta2.Module) []v1beta2.Module {
		all = slices.Clone(all)
		for i := range all {
			m := &all[i]
			m.Name, m.Channel, m.Version = common(m.Name), common(m.Channel), common(m.Version)
			m.CustomResourcePolicy = v1beta2.CustomResourcePolicy(common(string(m.CustomResourcePolicy)))
		}
		return all
	})
}

func slimKnown(modules []v1beta2.ModuleStatus) []v1beta2.ModuleStatus {
	all := slices.Clone(modules)
	for i := range all {
		m := &all[i]
		m.Name, m.FQDN, m.OcmComponentName = common(m.Name), common(m.FQDN), common(m.OcmComponentName)
		m.Channel, m.Version, m.State = common(m.Channel), common(m.Version), v1beta2.State(common(string(m.State)))
		m.Manifest, m.Resource, m.Template = slimObject(m.Manifest), slimObject(m.Resource), slimObject(m.Template)
	}
	return all
}

func slimObject(object *v1beta2.TrackingObject) *v1beta2.TrackingObject {
	if object == nil {
		return nil
	}
	return trackedObjects.one(object, func(o *v1beta2.TrackingObject) *v1beta2.TrackingObject { return o })
}

// common returns the first text of all that are equal, for such as many objects have. It keeps nothing else of what the text was read from.
func common(text string) string { return texts.one(text, strings.Clone) }
