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

// Runtime is what is known of a runtime apart from what it asks for.
type Runtime struct {
	ID string
	// Audience says whom exactly the bundle is for.
	Audience bundle.Audience
	// Key is the runtime's enrolled key, nil before enrollment; Requests says that it asked for a certificate.
	Key      crypto.PublicKey
	Requests bool
	// Certificate is the one that the next bundle brings, empty for none.
	Certificate string
	// KymaGeneration is that of the runtime's Kyma whose spec is resolved, 0 before it is known.
	KymaGeneration int64
	// KymaSpec is the digest of that spec, empty for a runtime that does not decide by it.
	KymaSpec digest.Digest
	// Deleting says that the Kyma is deleted in the control plane: the next bundle is the last.
	Deleting bool
	// Validity is how long its bundles must be valid at least, because they are on their way for that long; 0 asks for
	// nothing.
	Validity time.Duration
	// Kyma is its Kyma in the control plane or in a file, Former are the Kymas that owned it before. Assigned reports
	// whether an operator assigned it to this Kyma.
	Kyma     trust.Kyma
	Former   []trust.Kyma
	Assigned bool
	// Remembered is what is known of the bundle that was published last, nil where nobody remembers anything.
	Remembered *Memory
	// Installed are the modules that the runtime last said it has, and Observed the bundle it said so about.
	Installed []string
	Observed  digest.Digest
	// ObservedEpoch and ObservedSequence are that bundle's, as the runtime says.
	ObservedEpoch, ObservedSequence int64
	// LeavesModulesOut says that there are more: who is not among Installed is not gone.
	LeavesModulesOut bool
	// AgentRollbackFrom are the agent images that the runtime's agent can leave for an older one, by digest.
	AgentRollbackFrom []string
	// Source is the commit that is current, nil where there is none. It is told by a bundle that is needed and makes none
	// needed.
	Source *bundle.Source
	// Secrets are those for the runtime, nil when nothing is to be said about them.
	Secrets *Secrets
	// Sealed is what the next bundle says about them.
	Sealed *bundle.Sealed
	// Request is the runtime's own request, nil if the control plane's Kyma decides. What it does not name, the runtime
	// does not want.
	Request *v1beta2.KymaSpec
	// Mandatory are the modules that the last bundle had without the runtime's own request.
	Mandatory []string
	// Changing is that of the Rules.
	Changing bool
	// InUse: the runtime enrolled or reported, or its bundles are carried, so that a removal can lose something.
	InUse bool
}

// Secrets are what the control plane knows of the Secrets of one runtime.
type Secrets struct {
	// Recipient is whom they are encrypted to, empty before the runtime has said so.
	Recipient string
	// All are those that the control plane has for the runtime.
	All []bundle.RuntimeSecret
	// Known are the names of all that the runtime may have.
	Known []string
	// Partial says that only some were read: what else the runtime has stays, and stays remembered.
	Partial bool
}

// Runtime returns what is known of a Kyma's runtime: from the Kyma's annotations and status, and from the newest
// report, nil without one.
func (r Rules) Runtime(kyma *v1beta2.Kyma, report *bundle.AcceptedReport) Runtime {
	id := RuntimeID(kyma)
	next := Runtime{
		ID: id, Audience: bundle.Audience{Runtime: id}, Deleting: !kyma.DeletionTimestamp.IsZero(), Source: r.Source,
		Kyma: Identity(kyma), Former: formerOf(kyma.Status.Runtime), Assigned: Decided(kyma) > 0,
		Remembered: &Memory{}, Changing: r.Changing, AgentRollbackFrom: r.agentRollbackFrom(kyma),
	}
	if silence, carried, err := r.Allowed(kyma); carried && err == nil {
		next.Validity = silence // what may be on its way for that long must still be good when it arrives
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
		next.hear(report)
		next.Remembered.Versions = given(kyma.Status.Runtime, report)
	}
	return next
}

// remember takes what the control plane wrote down.
func (r *Runtime) remember(kyma *v1beta2.Kyma, root trust.Root) {
	status := kyma.Status.Runtime
	if p := status.Published; p != nil {
		r.Remembered = &Memory{Epoch: p.Epoch, Sequence: p.Sequence, Digest: digest.Digest(p.Digest), Versions: p.Versions,
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

// hear takes what the runtime reported. The modules and the bundle are of the same report: what a runtime has means
// something only together with the bundle that it applied.
func (r *Runtime) hear(report *bundle.AcceptedReport) {
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

// given returns the versions that the runtime is remembered to have been given.
func (r Runtime) given() map[string]string {
	if r.Remembered == nil {
		return nil
	}
	return r.Remembered.Versions
}

// used returns the newest sequence of the root's epoch that is remembered, or that the runtime says it has seen: a
// runtime is believed about itself, as far as the clock allows. A new epoch starts over, also after sequences so far
// ahead that nobody could go on from there.
func (r Runtime) used(root trust.Root, now time.Time) (newest int64) {
	if m := r.Remembered; m != nil && m.Epoch == root.Epoch {
		newest = m.Sequence
	}
	if r.ObservedEpoch == root.Epoch && !Ahead(r.ObservedSequence, now) {
		newest = max(newest, r.ObservedSequence)
	}
	return newest
}

// equivocates reports whether the runtime has accepted another bundle of the last one's sequence: one that was
// forgotten in a crash.
func (r Runtime) equivocates(last *Published) bool {
	p := last.Predicate
	return r.ObservedEpoch == p.Epoch && r.ObservedSequence == p.Sequence && r.Observed != last.Digest
}

// proves reports whether a certificate request proves to hold the runtime's key.
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
