package controller

import (
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
)

// Slimmer reduces the memory for cached Kymas and reports. If several of them contain equal parts, such as lists of
// modules, it stores the part only once. It is safe for concurrent use.
type Slimmer struct {
	parts *memo.Memo[partKey, storedPart]

	mu         sync.Mutex // guards releasedAt
	releasedAt time.Time
}

type partKey [sha256.Size]byte

type partKind byte

const (
	partRequested partKind = iota
	partStatuses
	partReported
	partVersions
	partChanges
	partObjects
	partTexts
)

const (
	// maxPartsBytes limits the memory for stored parts, and maxPartBytes the size of one part as JSON. Without limits,
	// a runtime could fill the memory with its reports.
	maxPartsBytes = 16 << 20
	maxPartBytes  = 16 << 10
	// Parts that were not used for releaseInterval are dropped while the stored parts have more than releaseBytes.
	releaseInterval = time.Hour
	releaseBytes    = maxPartsBytes / 2
)

type storedPart struct {
	value any
	bytes int
}

// NewSlimmer returns a Slimmer that does not store parts yet.
func NewSlimmer() *Slimmer {
	return &Slimmer{
		parts: memo.New(memo.Limit{Bytes: maxPartsBytes}, func(_ partKey, part storedPart) int {
			return part.bytes + memo.EntryBytes
		}),
	}
}

// Release drops parts that were not used recently if many parts are stored, at most once per releaseInterval. The usual
// parts of a fleet need little memory, so they stay.
func (s *Slimmer) Release(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.releasedAt) < releaseInterval {
		return
	}
	s.releasedAt = now
	if _, bytes := s.parts.Size(); bytes > releaseBytes {
		s.parts.DropUnused()
	}
}

// run calls Release until the context ends.
func (s *Slimmer) run(ctx context.Context) error {
	tick := time.NewTicker(releaseInterval / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			s.Release(now)
		}
	}
}

// sharePart returns the stored part that equals part. If no equal part is stored yet, it calls keep with part, and
// stores and returns the result.
func sharePart[T any](s *Slimmer, kind partKind, part T, keep func(T) T) T {
	var text []byte
	if plain, is := any(part).(string); is {
		text = append([]byte{byte(kind)}, plain...)
	} else {
		text = append([]byte{byte(kind)}, memo.Encode(part)...)
	}
	if len(text) > maxPartBytes {
		return keep(part)
	}
	key := partKey(sha256.Sum256(text))
	if known, found := s.parts.Get(key); found {
		return known.value.(T)
	}
	kept := keep(part)
	s.parts.Put(key, storedPart{kept, memo.MemoryOf(kept)})
	return kept
}

// Transform is a cache transform for Kymas. It removes unused fields, and replaces parts that occur in several Kymas
// with a shared copy.
func (s *Slimmer) Transform(object any) (any, error) {
	kyma, is := object.(*v1beta2.Kyma)
	if !is {
		return object, nil
	}
	kyma.ManagedFields = nil
	delete(kyma.Annotations, corev1.LastAppliedConfigAnnotation)
	kyma.APIVersion, kyma.Kind = s.shareText(kyma.APIVersion), s.shareText(kyma.Kind)
	kyma.Namespace, kyma.Finalizers = s.shareText(kyma.Namespace), slices.Clone(kyma.Finalizers)
	kyma.Spec.Modules = s.shareRequested(kyma.Spec.Modules)
	status := &kyma.Status
	status.Modules = sharePart(s, partStatuses, status.Modules, s.shareStatuses)
	status.Conditions = slices.Clone(status.Conditions)
	for i := range status.Conditions {
		c := &status.Conditions[i]
		c.Type, c.Reason, c.Status = s.shareText(c.Type), s.shareText(c.Reason),
			metav1.ConditionStatus(s.shareText(string(c.Status)))
		if c.Status == metav1.ConditionTrue {
			c.Message = s.shareText(c.Message)
		}
	}
	if r := status.Runtime; r != nil {
		s.slimRuntime(r)
	}
	return kyma, nil
}

func (s *Slimmer) slimRuntime(r *v1beta2.RuntimeStatus) {
	if r.Requested != nil {
		r.Requested.Spec.Modules = s.shareRequested(r.Requested.Spec.Modules)
	}
	if r.Published != nil && len(r.Published.Versions) > 0 {
		r.Published.Versions = sharePart(s, partVersions, r.Published.Versions,
			func(all map[string]string) map[string]string { return all })
	}
	for i := range r.History {
		b := &r.History[i]
		b.Commit, b.State = s.shareText(b.Commit), v1beta2.State(s.shareText(string(b.State)))
		if len(b.Changes) > 0 {
			b.Changes = sharePart(s, partChanges, b.Changes,
				func(all []v1beta2.VersionChange) []v1beta2.VersionChange { return all })
		}
	}
	if r.Observed != nil {
		r.Observed.AgentVersion, r.Observed.KubernetesVersion = s.shareText(r.Observed.AgentVersion),
			s.shareText(r.Observed.KubernetesVersion)
	}
}

func (s *Slimmer) slimReport(report *bundle.AcceptedReport) {
	report.AgentVersion, report.KubernetesVersion, report.Fleet = s.shareText(report.AgentVersion),
		s.shareText(report.KubernetesVersion), s.shareText(report.Fleet)
	// Drop the report's details, because they can be large. Clients read them from the registry, not from this process.
	report.Report = report.WithoutDetails()
	// Drop the certificate. It was only needed to find the key that signed the report.
	report.Certificate = ""
	if report.Kyma != nil {
		report.Kyma.Spec.Modules = s.shareRequested(report.Kyma.Spec.Modules)
	}
	report.Modules = sharePart(s, partReported, report.Modules,
		func(all []bundle.ReportedModule) []bundle.ReportedModule {
			all = slices.Clone(all)
			for i := range all {
				m := &all[i]
				m.Name, m.Channel, m.Version, m.Wanted = s.shareText(m.Name), s.shareText(m.Channel), s.shareText(m.Version),
					s.shareText(m.Wanted)
				m.State, m.Manifest, m.Resource = v1beta2.State(s.shareText(string(m.State))), s.shareObject(m.Manifest),
					s.shareObject(m.Resource)
			}
			return all
		})
}

func (s *Slimmer) shareRequested(modules []v1beta2.Module) []v1beta2.Module {
	return sharePart(s, partRequested, modules, func(all []v1beta2.Module) []v1beta2.Module {
		all = slices.Clone(all)
		for i := range all {
			m := &all[i]
			m.Name, m.Channel, m.Version = s.shareText(m.Name), s.shareText(m.Channel), s.shareText(m.Version)
			m.CustomResourcePolicy = v1beta2.CustomResourcePolicy(s.shareText(string(m.CustomResourcePolicy)))
		}
		return all
	})
}

func (s *Slimmer) shareStatuses(modules []v1beta2.ModuleStatus) []v1beta2.ModuleStatus {
	all := slices.Clone(modules)
	for i := range all {
		m := &all[i]
		m.Name, m.FQDN, m.OcmComponentName = s.shareText(m.Name), s.shareText(m.FQDN), s.shareText(m.OcmComponentName)
		m.Channel, m.Version, m.State = s.shareText(m.Channel), s.shareText(m.Version),
			v1beta2.State(s.shareText(string(m.State)))
		m.Manifest, m.Resource, m.Template = s.shareObject(m.Manifest), s.shareObject(m.Resource), s.shareObject(m.Template)
	}
	return all
}

func (s *Slimmer) shareObject(object *v1beta2.TrackingObject) *v1beta2.TrackingObject {
	if object == nil {
		return nil
	}
	return sharePart(s, partObjects, object, func(o *v1beta2.TrackingObject) *v1beta2.TrackingObject { return o })
}

// shareText returns a shared copy of the text. The copy lets the garbage collector free the decoded document.
func (s *Slimmer) shareText(text string) string { return sharePart(s, partTexts, text, strings.Clone) }
