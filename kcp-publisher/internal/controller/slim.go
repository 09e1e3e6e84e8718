package controller

import (
	"crypto/sha256"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
)

// Slimmer reduces the memory for cached Kymas and reports. If several of them contain equal parts, such as lists of
// modules, they share one copy of the part. The Slimmer does not keep a part in memory after the last Kyma and report
// with this part are freed. It is safe for concurrent use.
type Slimmer struct {
	parts *memo.Memo[partKey, weakPart]
	// versions contains the shared maps of versions. Go has no weak references to maps.
	versions *memo.Memo[partKey, map[string]string]

	// added is the number of parts that were added since the last call to dropFreed.
	added atomic.Int64
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
	// maxPartsBytes limits the memory for the index of parts, maxVersionsBytes the memory for maps of versions, and
	// maxPartBytes the size of one part as JSON. Without limits, a runtime could fill the memory with its reports.
	maxPartsBytes    = 16 << 20
	maxVersionsBytes = 4 << 20
	maxPartBytes     = 16 << 10
	// minAdded is the number of added parts after which the Slimmer looks for freed parts, and dropInterval is the
	// longest time until it does so.
	minAdded     = 1_000
	dropInterval = time.Minute
)

// weakPart references a part without keeping it in memory.
type weakPart interface{ isFreed() bool }

// weakSlice is a weak reference to the elements of a slice. length is both the length and the capacity of the slice.
type weakSlice[E any] struct {
	first  weak.Pointer[E]
	length int
}

func (p weakSlice[E]) isFreed() bool { return p.first.Value() == nil }

// NewSlimmer returns an empty Slimmer.
func NewSlimmer() *Slimmer {
	return &Slimmer{
		parts: memo.New(memo.Limit{Bytes: maxPartsBytes}, func(partKey, weakPart) int { return memo.EntryBytes }),
		versions: memo.New(memo.Limit{Bytes: maxVersionsBytes}, func(_ partKey, versions map[string]string) int {
			return memo.MemoryOf(versions) + memo.EntryBytes
		}),
	}
}

// dropFreed drops the references to parts that the garbage collector has freed.
func (s *Slimmer) dropFreed() {
	s.added.Store(0)
	s.parts.Prune(weakPart.isFreed)
}

// add adds a reference to a part. If many parts were added since the last call to dropFreed, it also drops the
// references to freed parts, to save memory.
func (s *Slimmer) add(key partKey, part weakPart) {
	s.parts.Put(key, part)
	if entries, _ := s.parts.Size(); s.added.Add(1) >= int64(max(entries/2, minAdded)) {
		s.dropFreed()
	}
}

// hashPart returns the key of a part with the given content. It returns false if the part is too large to be shared.
func hashPart(kind partKind, content []byte) (key partKey, isSmall bool) {
	if len(content) >= maxPartBytes {
		return key, false
	}
	return sha256.Sum256(append([]byte{byte(kind)}, content...)), true
}

// shareSlice returns the shared slice that equals part. If no equal slice is shared yet, it calls keep with part, and
// shares and returns the result.
func shareSlice[E any](s *Slimmer, kind partKind, part []E, keep func([]E) []E) []E {
	if len(part) == 0 {
		return keep(part)
	}
	return shareContent(s, kind, memo.Encode(part), part, keep)
}

// shareContent is like shareSlice, but identifies a non-empty part by its content.
func shareContent[E any](s *Slimmer, kind partKind, content []byte, part []E, keep func([]E) []E) []E {
	key, isSmall := hashPart(kind, content)
	if !isSmall {
		return keep(part)
	}
	if known, found := s.parts.Get(key); found {
		known := known.(weakSlice[E])
		if first := known.first.Value(); first != nil {
			return unsafe.Slice(first, known.length)
		}
	}
	kept := slices.Clip(keep(part))
	s.add(key, weakSlice[E]{weak.Make(unsafe.SliceData(kept)), len(kept)})
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
	status.Modules = shareSlice(s, partStatuses, status.Modules, s.shareStatuses)
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
		r.Published.Versions = s.shareVersions(r.Published.Versions)
	}
	for i := range r.History {
		b := &r.History[i]
		b.Commit, b.State = s.shareText(b.Commit), v1beta2.State(s.shareText(string(b.State)))
		if len(b.Changes) > 0 {
			b.Changes = shareSlice(s, partChanges, b.Changes,
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
	report.Modules = shareSlice(s, partReported, report.Modules,
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
	return shareSlice(s, partRequested, modules, func(all []v1beta2.Module) []v1beta2.Module {
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

func (s *Slimmer) shareVersions(versions map[string]string) map[string]string {
	key, isSmall := hashPart(partVersions, memo.Encode(versions))
	if !isSmall {
		return versions
	}
	if known, found := s.versions.Get(key); found {
		return known
	}
	s.versions.Put(key, versions)
	return versions
}

func (s *Slimmer) shareObject(object *v1beta2.TrackingObject) *v1beta2.TrackingObject {
	if object == nil {
		return nil
	}
	shared := shareSlice(s, partObjects, unsafe.Slice(object, 1),
		func(all []v1beta2.TrackingObject) []v1beta2.TrackingObject { return all })
	return &shared[0]
}

// shareText returns a shared copy of the text. Because the text is copied, the garbage collector can free the
// document from which the text was decoded.
func (s *Slimmer) shareText(text string) string {
	if text == "" {
		return ""
	}
	bytes := unsafe.Slice(unsafe.StringData(text), len(text))
	shared := shareContent(s, partTexts, bytes, bytes, slices.Clone)
	return unsafe.String(unsafe.SliceData(shared), len(shared))
}
