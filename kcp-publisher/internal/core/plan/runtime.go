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
	// Key is the runtime's enrolled key, nil before enrollment. Requests is true if it requested a certificate.
	Key      crypto.PublicKey
	Requests bool
	// Certificate is the certificate in the next bundle, empty for none.
	Certificate string
	// KymaGeneration is the generation of the runtime's Kyma whose spec is resolved, 0 before it is known.
	KymaGeneration int64
	// KymaSpec is the digest of that spec, empty if the runtime does not decide.
	KymaSpec digest.Digest
	// Deleting is true if the Kyma is deleted in the control plane: the next bundle is the last.
	Deleting bool
	// Validity is the minimum validity of its bundles, for the time of their transport. 0 sets no minimum.
	Validity time.Duration
	// Kyma is its Kyma in the control plane or in a file, Former are the Kymas that owned it before. Assigned reports
	// whether an operator assigned it to this Kyma.
	Kyma     trust.Kyma
	Former   []trust.Kyma
	Assigned bool
	// Remembered is the record of the last published bundle, nil without a record.
	Remembered *Memory
	// Installed are the modules in the runtime's last report, and Observed that report's bundle.
	Installed []string
	Observed  digest.Digest
	// ObservedEpoch and ObservedSequence are the epoch and sequence of that bundle, as reported.
	ObservedEpoch, ObservedSequence int64
	// LeavesModulesOut is true if the report omits modules, so a module that is not in Installed can still exist.
	LeavesModulesOut bool
	// AgentRollbackFrom are the agent images that the runtime's agent can leave for an older one, by digest.
	AgentRollbackFrom []string
	// Source is the current commit, nil for none. A bundle names it, but a new commit alone causes no bundle.
	Source *bundle.Source
	// Secrets are the Secrets for the runtime, nil to leave them unchanged.
	Secrets *Secrets
	// Sealed are the sealed Secrets of the next bundle.
	Sealed *bundle.Sealed
	// Request is the runtime's own request, nil if the control plane's Kyma decides. The runtime does not want modules
	// that it does not name.
	Request *v1beta2.KymaSpec
	// Mandatory are the modules that the last bundle had without the runtime's own request.
	Mandatory []string
	// Changing is Rules.Changing.
	Changing bool
	// InUse: the runtime enrolled or reported, or its bundles are carried, so a removal can affect it.
	InUse bool
}

// Secrets contains the control plane's Secrets for one runtime.
type Secrets struct {
	// Recipient is the key that Secrets are encrypted to, empty before the runtime has reported it.
	Recipient string
	// All are the Secrets of the control plane for the runtime.
	All []bundle.RuntimeSecret
	// Known are the names of all Secrets that the runtime can have.
	Known []string
	// Partial is true if only some were read. The runtime's other Secrets stay, and stay recorded.
	Partial bool
}

// Runtime returns the known state of a Kyma's runtime, from the Kyma's annotations and status and from the newest
// report, nil without one.
func (r Rules) Runtime(kyma *v1beta2.Kyma, report *bundle.AcceptedReport) Runtime {
	id := RuntimeID(kyma)
	next := Runtime{
		ID: id, Audience: bundle.Audience{Runtime: id}, Deleting: !kyma.DeletionTimestamp.IsZero(), Source: r.Source,
		Kyma: Identity(kyma), Former: formerOf(kyma.Status.Runtime), Assigned: Decided(kyma) > 0,
		Remembered: &Memory{}, Changing: r.Changing, AgentRollbackFrom: r.agentRollbackFrom(kyma),
	}
	if silence, carried, err := r.Allowed(kyma); carried && err == nil {
		next.Validity = silence // a carried bundle must still be valid when it arrives
	}
	next.InUse = inUse(kyma)
	if status := kyma.Status.Runtime; status != nil {
		next.remember(kyma, r.Root)
		next.Request = ownRequest(kyma)
		if status.Requested != nil && r.autonomy(kyma) == bundle.AutonomyCatalog {
			next.KymaSpec = bundle.WishDigest(status.Requested.Spec)
		}
	}
	if report != nil {
		next.recordReport(report)
		next.Remembered.Versions = grantedVersions(kyma.Status.Runtime, report)
	}
	return next
}

// remember adds the control plane's record.
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
		r.Audience.KeyThumbprint = bundle.AudienceNobody
	} else if key, err := trust.DecodePublicKey(status.Key.PublicKey); err == nil {
		r.Key = key
	}
}

// recordReport adds the runtime's report. Modules and bundle come from the same report, because installed modules only
// have a meaning for the applied bundle.
func (r *Runtime) recordReport(report *bundle.AcceptedReport) {
	if r.Key != nil && report.CertificateRequest != "" {
		r.Requests = proves(report.CertificateRequest, r.Audience.KeyThumbprint)
	}
	if o := report.Observed; o != nil {
		r.Observed, r.ObservedEpoch, r.ObservedSequence = o.Digest, o.Epoch, o.Sequence
	}
	r.LeavesModulesOut = report.LeavesModulesOut()
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

// used returns the newest known sequence of the root's epoch, recorded or reported: a runtime's claim about itself
// counts, within the limits of the clock. A new epoch starts again, also after sequences so far ahead that no publisher
// could continue.
func (r Runtime) used(root trust.Root, now time.Time) (newest int64) {
	if m := r.Remembered; m != nil && m.Epoch == root.Epoch {
		newest = m.Sequence
	}
	if r.ObservedEpoch == root.Epoch && !Ahead(r.ObservedSequence, now) {
		newest = max(newest, r.ObservedSequence)
	}
	return newest
}

// equivocates reports whether the runtime has accepted another bundle with the last one's sequence, whose record a
// crash lost.
func (r Runtime) equivocates(last *Published) bool {
	p := last.Predicate
	return r.ObservedEpoch == p.Epoch && r.ObservedSequence == p.Sequence && r.Observed != last.Digest
}

// proves reports whether a certificate request proves the possession of the runtime's key.
func proves(request, thumbprint string) bool {
	key, err := trust.Requested(request)
	if err != nil {
		return false
	}
	proven, err := trust.Thumbprint(key)
	return err == nil && proven == thumbprint
}

// RevokedKeys returns the thumbprints of agents' keys that the Kyma revokes.
func RevokedKeys(kyma *v1beta2.Kyma) []string {
	return strings.Fields(kyma.Annotations[v1beta2.AnnotationRevokedKeys])
}
