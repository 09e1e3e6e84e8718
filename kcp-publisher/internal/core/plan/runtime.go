package plan

import (
	"cmp"
	"crypto"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/removal"
)

// Runtime contains the data about a runtime that determines its next bundle, except the module request.
type Runtime struct {
	ID string
	// Audience identifies the cluster and the key that the bundle is for.
	Audience bundle.Audience
	// Key is the agent's enrolled public key, or nil. RequestsCertificate is true if the agent requests a certificate
	// for this key.
	Key                 crypto.PublicKey
	RequestsCertificate bool
	// Certificate is the agent certificate to put into the next bundle, or empty.
	Certificate string
	// KymaGeneration is the generation of the Kyma in the runtime, or 0 if unknown.
	KymaGeneration int64
	// KymaSpec is the digest of the spec of the Kyma in the runtime. It is set only if the runtime can choose modules
	// by itself (autonomy).
	KymaSpec digest.Digest
	// IsDeleting is true if the Kyma was deleted, so that the next bundle removes all modules.
	IsDeleting bool
	// Validity is the minimum validity period of the runtime's bundles, or 0 for no minimum.
	Validity time.Duration
	// Kyma identifies the runtime's Kyma in the control plane or in a file. FormerOwners lists the Kymas that owned the
	// runtime before. AssignedAt is the time when an operator assigned the runtime to Kyma, in Unix milliseconds, or 0.
	Kyma         trust.Kyma
	FormerOwners []trust.Kyma
	AssignedAt   int64
	// RecordedBundle is the last published bundle in the Kyma's status, or nil. Its Versions also contain newer versions
	// in the report. PublishedVersions contains only the versions in the status.
	RecordedBundle    *RecordedBundle
	PublishedVersions map[string]string
	// Installed lists the modules in the runtime's last report. Observed is the digest of the bundle that the runtime
	// had applied when it created this report.
	Installed []string
	Observed  digest.Digest
	// ObservedEpoch and ObservedSequence are the epoch and the sequence number of the bundle in Observed.
	ObservedEpoch, ObservedSequence int64
	// IsRecordOutdated is true if the runtime is ahead of the Kyma's status: see function isRecordOutdated.
	IsRecordOutdated bool
	// OmitsModules is true if the last report was truncated and omits modules.
	OmitsModules bool
	// AgentRollbackFrom lists agent image digests. The runtime's agent may roll back from these images to an older one.
	AgentRollbackFrom []string
	// Source is the current Git commit, or nil. If only the commit changes, no new bundle is necessary.
	Source *bundle.Source
	// Secrets contains the Secrets to publish to the runtime. If it is nil, the Secrets in the next bundle do not
	// change.
	Secrets *RuntimeSecrets
	// Sealed contains the encrypted Secrets of the next bundle.
	Sealed *bundle.Sealed
	// Request is the spec of the Kyma in the runtime. It is nil if the publisher uses the spec of the control plane's
	// Kyma.
	Request *v1beta2.KymaSpec
	// IsRequestVerified is true if the agent that sent the newest report also sent Request. Otherwise, Request may be
	// outdated, because a restored control plane has an old request until the publisher accepts a report.
	IsRequestVerified bool
	// RemovalsHeldByRestore lists the modules with removals that wait for approval because the control plane was
	// restored.
	RemovalsHeldByRestore []string
	// Mandatory lists the mandatory modules in the last bundle.
	Mandatory []string
	// IsChanging is true while a change to the control plane's objects is in progress. See Rules.IsChanging.
	IsChanging bool
	// IsInUse is true if the runtime may have modules.
	IsInUse bool
}

// RuntimeSecrets contains the Secrets that the control plane publishes to one runtime.
type RuntimeSecrets struct {
	// Recipient is the public key for the encryption of the runtime's Secrets, or empty.
	Recipient string
	// Published contains the Secrets to publish to the runtime.
	Published []bundle.RuntimeSecret
	// KnownNames lists the names of the Secrets that may exist in the runtime and that the next bundle can remove.
	KnownNames []string
	// RecordedNames lists the names of all Secrets that may exist in the runtime. The deletion of the Kyma removes them.
	RecordedNames []string
	// IsPartial is true if the publisher could not read some Secrets. In this case, the runtime keeps its copies of
	// these Secrets.
	IsPartial bool
}

// Runtime returns the data about a Kyma's runtime that determines the next bundle. report is the newest report or nil.
func (r Rules) Runtime(kyma *v1beta2.Kyma, report *bundle.AcceptedReport) Runtime {
	id := RuntimeID(kyma)
	next := Runtime{
		ID: id, Audience: bundle.Audience{Runtime: id}, IsDeleting: !kyma.DeletionTimestamp.IsZero(), Source: r.Source,
		Kyma: KymaIdentity(kyma), FormerOwners: formerOwners(kyma.Status.Runtime), AssignedAt: AssignedAt(kyma),
		RecordedBundle: &RecordedBundle{}, IsChanging: r.IsChanging, AgentRollbackFrom: r.agentRollbackFrom(kyma),
	}
	if silence, carried, err := r.SilenceTimeoutFor(kyma); carried && err == nil {
		// An operator can export the bundle at any time before its renewal, which is due after a third of its validity.
		// The other two thirds must be long enough to carry the bundle to the runtime.
		next.Validity = silence * 3 / 2
	}
	next.IsInUse = r.isInUse(kyma)
	if status := kyma.Status.Runtime; status != nil {
		next.setRecorded(kyma, r.Root)
		next.Request = ownRequest(kyma)
		next.IsRequestVerified = report != nil && status.Requested != nil && status.Requested.Instance == report.Instance
		next.RemovalsHeldByRestore = heldByRestore(status)
		if status.Requested != nil && r.autonomySetting(kyma) == bundle.AutonomyCatalog {
			next.KymaSpec = bundle.RequestDigest(status.Requested.Spec)
		}
	}
	if report != nil {
		next.recordReport(report)
		next.RecordedBundle.Versions = grantedVersions(kyma.Status.Runtime, report)
		next.IsRecordOutdated = isRecordOutdated(kyma.Status.Runtime, report)
	}
	return next
}

func (r *Runtime) setRecorded(kyma *v1beta2.Kyma, root trust.Root) {
	status := kyma.Status.Runtime
	if p := status.Published; p != nil {
		r.RecordedBundle = &RecordedBundle{Epoch: p.Epoch, Sequence: p.Sequence, Digest: digest.Digest(p.Digest),
			Versions: p.Versions,
			Removals: p.Removals, RolledBackFrom: p.RolledBackFrom}
		r.Mandatory, r.PublishedVersions = p.Mandatory, p.Versions
	}
	if status.Requested != nil {
		r.KymaGeneration = status.Requested.Generation
	}
	if status.Observed != nil {
		r.Audience.ClusterUID = status.Observed.ClusterUID
	}
	if status.Key == nil {
		return
	}
	r.Audience.ClusterUID = cmp.Or(status.Key.ClusterUID, r.Audience.ClusterUID)
	r.Audience.KeyThumbprint = status.Key.Thumbprint
	if slices.Contains(revokedKeys(kyma), status.Key.Thumbprint) || root.IsRevoked(status.Key.Thumbprint) {
		r.Audience.KeyThumbprint = bundle.AudienceNone
	} else if key, err := trust.DecodePublicKey(status.Key.PublicKey); err == nil {
		r.Key = key
	}
}

// heldByRestore returns the modules with removals that wait for approval because the control plane was restored.
func heldByRestore(status *v1beta2.RuntimeStatus) (modules []string) {
	for _, d := range status.Removals {
		if d.Decision == v1beta2.RemovalHeld && !d.Published && d.Reason == string(removal.Restored) {
			modules = append(modules, d.Module)
		}
	}
	return modules
}

// recordReport sets the fields that depend on the last report. Installed and Observed must come from the same report. A
// report confirms a removal if it contains the applied bundle but not the module.
func (r *Runtime) recordReport(report *bundle.AcceptedReport) {
	if r.Key != nil && report.CertificateRequest != "" {
		r.RequestsCertificate = isRequestForKey(report.CertificateRequest, r.Audience.KeyThumbprint)
	}
	if o := report.Observed; o != nil {
		r.Observed, r.ObservedEpoch, r.ObservedSequence = o.Digest, o.Epoch, o.Sequence
	}
	r.OmitsModules = report.OmitsModules()
	for _, m := range report.Modules {
		r.Installed = append(r.Installed, m.Name)
	}
}

func (r Runtime) grantedVersions() map[string]string {
	if r.RecordedBundle == nil {
		return nil
	}
	return r.RecordedBundle.Versions
}

// highestSequence returns the highest sequence number of the current epoch in the Kyma's status or the runtime's
// report. It ignores a reported sequence number that is far in the future.
func (r Runtime) highestSequence(root trust.Root, now time.Time) (newest int64) {
	if m := r.RecordedBundle; m != nil && m.Epoch == root.Epoch {
		newest = m.Sequence
	}
	if r.ObservedEpoch == root.Epoch && !IsAhead(r.ObservedSequence, now) {
		newest = max(newest, r.ObservedSequence)
	}
	return newest
}

func (r Runtime) hasConflictingBundle(last *PublishedBundle) bool {
	p := last.Predicate
	return r.ObservedEpoch == p.Epoch && r.ObservedSequence == p.Sequence && r.Observed != last.Digest
}

func isRequestForKey(request, thumbprint string) bool {
	key, err := trust.RequestKey(request)
	if err != nil {
		return false
	}
	proven, err := trust.Thumbprint(key)
	return err == nil && proven == thumbprint
}

func (r Rules) isInUse(kyma *v1beta2.Kyma) bool { return r.IsOffline || isInUse(kyma) }

// isInUse reports whether the runtime may have modules. A runtime that never enrolled or reported does not have modules
// to remove.
func isInUse(kyma *v1beta2.Kyma) bool {
	s := kyma.Status.Runtime
	if s == nil {
		return false
	}
	_, carried := kyma.Annotations[v1beta2.AnnotationCarried]
	return s.Key != nil || s.Observed != nil || carried && s.Published != nil
}

// MaxAgentRollbacks limits the number of agent images in a Kyma's annotation. If the runtime's agent has one of these
// images, it can roll back to an older image.
const MaxAgentRollbacks = 20

// agentRollbackFrom returns the agent images that the runtime's agent can roll back from. It ignores invalid entries in
// the Kyma's annotation.
func (r Rules) agentRollbackFrom(kyma *v1beta2.Kyma) []string {
	from := slices.Clone(r.AgentRollbackFrom)
	for entry := range strings.SplitSeq(kyma.Annotations[v1beta2.AnnotationAgentRollbackFrom], ",") {
		entry = strings.TrimSpace(entry)
		if len(from) < MaxAgentRollbacks && digest.Digest(entry).Validate() == nil && !slices.Contains(from, entry) {
			from = append(from, entry)
		}
	}
	return from
}

func isFarAhead(sequence, last int64, now time.Time) bool {
	return IsAhead(sequence, now) && (last == 0 || sequence-last > trust.MaxClockSkew.Milliseconds())
}

// IsAhead reports whether a sequence number is too far in the future. A sequence number is a Unix time in milliseconds.
func IsAhead(sequence int64, now time.Time) bool {
	return sequence > now.Add(trust.MaxClockSkew).UnixMilli()
}
