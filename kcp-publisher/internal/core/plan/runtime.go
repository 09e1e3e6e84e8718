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
	// Key is the runtime's enrolled key, or nil before enrollment. Requests is true if the runtime requests a
	// certificate for that key.
	Key      crypto.PublicKey
	Requests bool
	// Certificate is the certificate in the next bundle. Empty means no certificate.
	Certificate string
	// KymaGeneration is the generation of the runtime's own Kyma, or 0 before the first request from the runtime.
	KymaGeneration int64
	// KymaSpec is the digest of the request in the runtime's own Kyma. It is empty if the runtime has no autonomy.
	KymaSpec digest.Digest
	// Deleting is true if the Kyma is deleted in the control plane. The next bundle is then the Kyma's last bundle.
	Deleting bool
	// Validity is the minimum validity of the runtime's bundles, which must cover the time to carry them by hand. 0
	// means no minimum.
	Validity time.Duration
	// Kyma is the runtime's Kyma in the control plane or in a file. Former are the former owners of the runtime.
	// Assigned is true if an operator assigned the runtime to this Kyma.
	Kyma     trust.Kyma
	Former   []trust.Kyma
	Assigned bool
	// Remembered is the record of the last published bundle, or nil if no record exists.
	Remembered *Memory
	// Installed are the modules in the runtime's last report. Observed is the digest of the bundle that the report
	// lists as applied.
	Installed []string
	Observed  digest.Digest
	// ObservedEpoch and ObservedSequence are the reported epoch and sequence of the observed bundle.
	ObservedEpoch, ObservedSequence int64
	// LeavesModulesOut is true if the report omits modules, so a module that is not in Installed can still exist.
	LeavesModulesOut bool
	// AgentRollbackFrom are the digests of the agent images from which the runtime's agent may return to an older
	// image.
	AgentRollbackFrom []string
	// Source is the control plane's current commit, or nil if unknown. Bundles contain the commit, but a new commit
	// alone does not cause a new bundle.
	Source *bundle.Source
	// Secrets are the Secrets for the runtime, or nil if the next bundle must not change them.
	Secrets *Secrets
	// Sealed are the sealed Secrets of the next bundle.
	Sealed *bundle.Sealed
	// Request is the spec of the runtime's own Kyma, or nil if the spec of the control plane's Kyma applies. A module
	// that is missing from Request can be removed.
	Request *v1beta2.KymaSpec
	// Mandatory are the mandatory modules in the last bundle.
	Mandatory []string
	// Changing is true while the control plane is partially changed. It is a copy of Rules.Changing.
	Changing bool
	// InUse is true if a removal can affect the runtime: it has enrolled or reported, or its bundles are carried by
	// hand.
	InUse bool
}

// Secrets contains the control plane's Secrets for one runtime.
type Secrets struct {
	// Recipient is the public key for which Secrets are encrypted. It is empty until the runtime has reported a key.
	Recipient string
	// All are the Secrets of the control plane for the runtime.
	All []bundle.RuntimeSecret
	// Known are the names of all Secrets that the runtime can have.
	Known []string
	// Partial is true if All does not contain all Secrets, because some could not be read. The runtime keeps the
	// Secrets that are missing from All.
	Partial bool
}

// Runtime returns the known state of a Kyma's runtime. Its sources are the Kyma's annotations and status, and the
// newest report, which can be nil.
func (r Rules) Runtime(kyma *v1beta2.Kyma, report *bundle.AcceptedReport) Runtime {
	id := RuntimeID(kyma)
	next := Runtime{
		ID: id, Audience: bundle.Audience{Runtime: id}, Deleting: !kyma.DeletionTimestamp.IsZero(), Source: r.Source,
		Kyma: Identity(kyma), Former: formerOf(kyma.Status.Runtime), Assigned: Decided(kyma) > 0,
		Remembered: &Memory{}, Changing: r.Changing, AgentRollbackFrom: r.agentRollbackFrom(kyma),
	}
	if silence, carried, err := r.Allowed(kyma); carried && err == nil {
		next.Validity = silence // a bundle that is carried by hand must still be valid when it arrives
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

// remember adds the state that is recorded in the Kyma's status.
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

// recordReport adds the state from the runtime's report. Installed and Observed must come from the same report, because
// they are used together to confirm removals.
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

// granted returns the recorded versions of the runtime.
func (r Runtime) granted() map[string]string {
	if r.Remembered == nil {
		return nil
	}
	return r.Remembered.Versions
}

// used returns the highest recorded or reported sequence of the root's epoch. A reported sequence that is too far in
// the future is ignored. A new epoch starts again at 0, even after sequences in the far future.
func (r Runtime) used(root trust.Root, now time.Time) (newest int64) {
	if m := r.Remembered; m != nil && m.Epoch == root.Epoch {
		newest = m.Sequence
	}
	if r.ObservedEpoch == root.Epoch && !Ahead(r.ObservedSequence, now) {
		newest = max(newest, r.ObservedSequence)
	}
	return newest
}

// equivocates reports whether the runtime has accepted a different bundle with the sequence of the last bundle. That
// happens if the publisher crashed before it recorded a push.
func (r Runtime) equivocates(last *Published) bool {
	p := last.Predicate
	return r.ObservedEpoch == p.Epoch && r.ObservedSequence == p.Sequence && r.Observed != last.Digest
}

// provesKey reports whether a certificate request proves the possession of the runtime's key.
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
