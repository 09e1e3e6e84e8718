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
)

// Runtime contains the known state of a runtime, except its request.
type Runtime struct {
	ID string
	// Audience is the recipient of the bundle.
	Audience bundle.Audience
	// Key is the runtime's enrolled key, or nil. Requests is true if the runtime requests a certificate for that key.
	Key      crypto.PublicKey
	Requests bool
	// Certificate is the certificate in the next bundle, or empty.
	Certificate string
	// KymaGeneration is the generation of the Kyma in the runtime, or 0 if unknown.
	KymaGeneration int64
	// KymaSpec is the digest of the request of the Kyma in the runtime, or empty without autonomy.
	KymaSpec digest.Digest
	// Deleting is true if the Kyma was deleted. The next bundle is then its last.
	Deleting bool
	// Validity is the minimum validity of the runtime's bundles, or 0.
	Validity time.Duration
	// Kyma is the runtime's Kyma in the control plane or in a file. Former are the former owners of the runtime.
	// Assigned is true if an operator assigned the runtime to this Kyma.
	Kyma     trust.Kyma
	Former   []trust.Kyma
	Assigned bool
	// Remembered is the last published bundle in the status, or nil.
	Remembered *Memory
	// Installed are the modules in the runtime's last report. Observed is the digest of the bundle that the report
	// lists as applied.
	Installed []string
	Observed  digest.Digest
	// ObservedEpoch and ObservedSequence are the reported epoch and sequence of the observed bundle.
	ObservedEpoch, ObservedSequence int64
	// LeavesModulesOut is true if the report omits modules.
	LeavesModulesOut bool
	// AgentRollbackFrom are the digests of the agent images from which the runtime's agent may roll back.
	AgentRollbackFrom []string
	// Source is the current Git commit, or nil. A new commit alone does not cause a new bundle.
	Source *bundle.Source
	// Secrets are the Secrets for the runtime, or nil to leave them unchanged.
	Secrets *Secrets
	// Sealed are the sealed Secrets of the next bundle.
	Sealed *bundle.Sealed
	// Request is the spec of the Kyma in the runtime, or nil if the control plane's spec applies.
	Request *v1beta2.KymaSpec
	// Mandatory are the mandatory modules in the last bundle.
	Mandatory []string
	// Changing is a copy of Rules.Changing.
	Changing bool
	// InUse is true if the runtime can have modules.
	InUse bool
}

// Secrets contains the control plane's Secrets for one runtime.
type Secrets struct {
	// Recipient is the runtime's public key for Secrets, or empty.
	Recipient string
	// All are the Secrets for the runtime.
	All []bundle.RuntimeSecret
	// Known are the names of all Secrets that the runtime can have.
	Known []string
	// Partial is true if some Secrets could not be read. The runtime keeps its other Secrets.
	Partial bool
}

// Runtime returns the known state of a Kyma's runtime. report is the newest report or nil.
func (r Rules) Runtime(kyma *v1beta2.Kyma, report *bundle.AcceptedReport) Runtime {
	id := RuntimeID(kyma)
	next := Runtime{
		ID: id, Audience: bundle.Audience{Runtime: id}, Deleting: !kyma.DeletionTimestamp.IsZero(), Source: r.Source,
		Kyma: Identity(kyma), Former: formerOf(kyma.Status.Runtime), Assigned: Decided(kyma) > 0,
		Remembered: &Memory{}, Changing: r.Changing, AgentRollbackFrom: r.agentRollbackFrom(kyma),
	}
	if silence, carried, err := r.Allowed(kyma); carried && err == nil {
		next.Validity = silence // a bundle must still be valid after an operator has carried it to the runtime
	}
	next.InUse = inUse(kyma)
	if status := kyma.Status.Runtime; status != nil {
		next.remember(kyma, r.Root)
		next.Request = ownRequest(kyma)
		if status.Requested != nil && r.autonomy(kyma) == bundle.AutonomyCatalog {
			next.KymaSpec = bundle.RequestDigest(status.Requested.Spec)
		}
	}
	if report != nil {
		next.recordReport(report)
		next.Remembered.Versions = grantedVersions(kyma.Status.Runtime, report)
	}
	return next
}

func (r *Runtime) remember(kyma *v1beta2.Kyma, root trust.Root) {
	status := kyma.Status.Runtime
	if p := status.Published; p != nil {
		r.Remembered = &Memory{Epoch: p.Epoch, Sequence: p.Sequence, Digest: digest.Digest(p.Digest),
			Versions: p.Versions,
			Removals: p.Removals, RolledBackFrom: p.RolledBackFrom}
		r.Mandatory = p.Mandatory
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
	if slices.Contains(RevokedKeys(kyma), status.Key.Thumbprint) || root.IsRevoked(status.Key.Thumbprint) {
		r.Audience.KeyThumbprint = bundle.AudienceNone
	} else if key, err := trust.DecodePublicKey(status.Key.PublicKey); err == nil {
		r.Key = key
	}
}

// Installed and Observed must come from the same report to confirm removals.
func (r *Runtime) recordReport(report *bundle.AcceptedReport) {
	if r.Key != nil && report.CertificateRequest != "" {
		r.Requests = provesKey(report.CertificateRequest, r.Audience.KeyThumbprint)
	}
	if o := report.Observed; o != nil {
		r.Observed, r.ObservedEpoch, r.ObservedSequence = o.Digest, o.Epoch, o.Sequence
	}
	r.LeavesModulesOut = report.OmitsModules()
	for _, m := range report.Modules {
		r.Installed = append(r.Installed, m.Name)
	}
}

func (r Runtime) granted() map[string]string {
	if r.Remembered == nil {
		return nil
	}
	return r.Remembered.Versions
}

// used returns the highest recorded or reported sequence of the root's epoch. It ignores reported sequences far in the
// future.
func (r Runtime) used(root trust.Root, now time.Time) (newest int64) {
	if m := r.Remembered; m != nil && m.Epoch == root.Epoch {
		newest = m.Sequence
	}
	if r.ObservedEpoch == root.Epoch && !Ahead(r.ObservedSequence, now) {
		newest = max(newest, r.ObservedSequence)
	}
	return newest
}

func (r Runtime) equivocates(last *Published) bool {
	p := last.Predicate
	return r.ObservedEpoch == p.Epoch && r.ObservedSequence == p.Sequence && r.Observed != last.Digest
}

func provesKey(request, thumbprint string) bool {
	key, err := trust.Requested(request)
	if err != nil {
		return false
	}
	proven, err := trust.Thumbprint(key)
	return err == nil && proven == thumbprint
}

// RevokedKeys returns the thumbprints of the agent keys that the Kyma's annotation revokes.
func RevokedKeys(kyma *v1beta2.Kyma) []string {
	return strings.Fields(kyma.Annotations[v1beta2.AnnotationRevokedKeys])
}

// ownRequest returns the last reported spec of the Kyma in the runtime, or nil if it does not apply.
func ownRequest(kyma *v1beta2.Kyma) *v1beta2.KymaSpec {
	if s := kyma.Status.Runtime; s != nil && s.Requested != nil && kyma.Labels[v1beta2.LabelSync] != v1beta2.False {
		return &s.Requested.Spec
	}
	return nil
}

// A runtime that never enrolled or reported has no modules to remove.
func inUse(kyma *v1beta2.Kyma) bool {
	s := kyma.Status.Runtime
	if s == nil {
		return false
	}
	_, carried := kyma.Annotations[v1beta2.AnnotationCarried]
	return s.Key != nil || s.Observed != nil || carried && s.Published != nil
}
