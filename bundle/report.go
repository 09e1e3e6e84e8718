package bundle

import (
	"crypto"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Report is what a runtime says about itself. Everything in it is the runtime's word, signed with the runtime's key.
type Report struct {
	Runtime string `json:"runtime"`
	// Fleet is that of the root of trust the runtime follows: one key may have served in two fleets.
	Fleet string `json:"fleet,omitempty"`
	// Sequence grows with every report that a key signs, by the rule of NextReportSequence.
	Sequence int64 `json:"sequence"`
	// Time is when the runtime says so, by its own clock. How long it was not heard is judged by the control plane's.
	Time time.Time `json:"time"`
	// AgentVersion and KubernetesVersion are as the two print them, such as "v1.36.3".
	AgentVersion      string `json:"agentVersion"`
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// ClusterUID is the UID of the runtime's kube-system namespace.
	ClusterUID string `json:"clusterUID,omitempty"`
	// Recipient is whom the runtime's Secrets are to be encrypted to, in age's text form.
	Recipient string `json:"recipient,omitempty"`
	// Observed is the accepted bundle that the rest describes, nil when there is none yet.
	Observed *Observed `json:"observed,omitempty"`
	// Kyma is the runtime's own, nil while it does not exist.
	Kyma *ReportedKyma `json:"kyma,omitempty"`
	// Modules are those installed in the runtime, sorted by name, also those that no bundle names any more.
	Modules []ReportedModule `json:"modules,omitempty"`
	// Refused are the bundles that were refused since the last one accepted, newest last, at most MaxRefusedReported.
	Refused []RefusedBundle `json:"refused,omitempty"`
	// Enrollment is there until the control plane is known to have the runtime's key.
	Enrollment *trust.Enrollment `json:"enrolment,omitempty"`
	// Certificate is the one that the control plane issued to the runtime's key, PEM; it makes the key known to a control
	// plane that lost its memory.
	Certificate string `json:"certificate,omitempty"`
	// CertificateRequest asks for a certificate, PEM (PKCS #10): there is none yet, or a third of its life is over.
	CertificateRequest string `json:"certificateRequest,omitempty"`
	// Decided are the modules that the runtime chose, changed or removed by itself since the bundle it has applied,
	// sorted.
	Decided []string `json:"decided,omitempty"`
	// AgentProblem says why the agent does not run the image that the bundle's settings name, empty when it does.
	AgentProblem string `json:"agentProblem,omitempty"`
	// Trouble says what the agent could not write into its runtime, nil when it could write everything.
	Trouble *ReportedTrouble `json:"trouble,omitempty"`
	// Secrets says what became of the Secrets that the bundle in force brought, nil when it brought none.
	Secrets *ReportedSecrets `json:"secrets,omitempty"`
	// Watched is what the watchers of the bundle in force saw change, sorted by watcher.
	Watched []ReportedWatch `json:"watched,omitempty"`
	// Takeover says how far the runtime is taken over from another product, nil when the bundle in force says nothing of
	// it.
	Takeover *ReportedTakeover `json:"takeover,omitempty"`
	// Truncated is what was left out so that the report fits, nil when it is whole.
	Truncated *Truncated `json:"truncated,omitempty"`
	// Features are the features that the agent understands, sorted. ComposeReport sets them to those of its own version if
	// they are nil.
	Features []Feature `json:"features,omitempty"`
	// Owner is the Kyma that the runtime belongs to, as its agent knows it; nil before that is known.
	Owner *trust.Kyma `json:"owner,omitempty"`
	// Instance is a nonce that the agent chooses at its start. One that returns after another belongs to a second agent
	// with the same key.
	Instance string `json:"instance,omitempty"`
	// Follows is the digest of the report that this agent found in the registry, empty for none. Its own reports form a
	// chain.
	Follows digest.Digest `json:"follows,omitempty"`
	// Confirmed reports whether the agent has found its own report in the registry often enough to be the only agent with
	// its key. The requests of an agent that has just started count from then on.
	Confirmed bool `json:"confirmed,omitempty"`
	// Twin is the instance of another agent whose report, signed with the same key, took the place of this agent's.
	Twin string `json:"twin,omitempty"`
}

// Truncated is what a report leaves out. What is not there then says nothing: a module that is left out is not gone.
type Truncated struct {
	// Messages says that messages were shortened or left out, Objects that Manifest and Resource of modules were.
	Messages bool `json:"messages,omitempty"`
	Objects  bool `json:"objects,omitempty"`
	// Lists says that what watchers saw or what the runtime decided was left out.
	Lists bool `json:"lists,omitempty"`
	// Modules is how many installed modules are left out.
	Modules int `json:"modules,omitempty"`
	// Asked is how many modules the runtime's Kyma asks for, when they are left out of its spec.
	Asked int `json:"asked,omitempty"`
}

// LeavesModulesOut reports whether not all installed modules are among the report's.
func (r Report) LeavesModulesOut() bool { return r.Truncated != nil && r.Truncated.Modules > 0 }

// LeavesWishesOut reports whether the modules that the runtime's Kyma asks for are left out of its spec.
func (r Report) LeavesWishesOut() bool { return r.Truncated != nil && r.Truncated.Asked > 0 }

// MaxRefusedReported bounds the refused bundles a report names: an attacker must not be able to push the rest out.
const MaxRefusedReported = 8

// Observed names the bundle a report describes.
type Observed struct {
	Epoch    int64         `json:"epoch"`
	Sequence int64         `json:"sequence"`
	Digest   digest.Digest `json:"digest"`
	// Expired says that the bundle's time is over: it is still kept in force, but nothing newer came.
	Expired bool `json:"expired,omitempty"`
}

// ReportedKyma is the runtime's own Kyma.
type ReportedKyma struct {
	Spec       v1beta2.KymaSpec `json:"spec"`
	Generation int64            `json:"generation"`
	Deleting   bool             `json:"deleting,omitempty"`
	State      v1beta2.State    `json:"state,omitempty"`
}

// ReportedModule is one module as it is installed.
type ReportedModule struct {
	Name    string `json:"name"`
	Channel string `json:"channel,omitempty"`
	// Version is the one that was applied last. Wanted is the one that its Manifest asks for, where that is another one:
	// it is being applied, or refused, which State says.
	Version string        `json:"version,omitempty"`
	Wanted  string        `json:"wanted,omitempty"`
	State   v1beta2.State `json:"state"`
	// Reason is why the state is not Ready, or what an upgrade waits for: one of reason.Modules, empty from an agent
	// without reasons.
	Reason reason.Reason `json:"reason,omitempty"`
	// Message explains the reason to people, at most MaxMessageBytes.
	Message string `json:"message,omitempty"`
	// Maintenance says that an upgrade waits for a maintenance window; Message says for which. State and Version are those
	// of what is installed meanwhile.
	Maintenance bool `json:"maintenance,omitempty"`
	// Manifest and Resource are the Manifest object and the module's default CR.
	Manifest *v1beta2.TrackingObject `json:"manifest,omitempty"`
	Resource *v1beta2.TrackingObject `json:"resource,omitempty"`
}

// ReportedTrouble is what an agent could not write.
type ReportedTrouble struct {
	// Reason is that of the condition Synced, which the trouble becomes.
	Reason string `json:"reason"`
	// Message names the objects and says why, at most MaxMessageBytes.
	Message string `json:"message"`
	// Catalog says that some of the objects are ModuleTemplates or ModuleReleaseMetas.
	Catalog bool `json:"catalog,omitempty"`
}

// ReportedSecrets is what became of sealed Secrets.
type ReportedSecrets struct {
	// Revision is that of the Sealed in question.
	Revision string `json:"revision"`
	// Reason is that of the trouble, one of reason.Secrets, empty without trouble and from an agent without reasons.
	Reason reason.Reason `json:"reason,omitempty"`
	// Trouble says what is not as the bundle says and why, by names, at most MaxMessageBytes; empty when all is.
	Trouble string `json:"trouble,omitempty"`
}

// MaxMessageBytes bounds one message in a report; when many modules fail, agents leave more out.
const MaxMessageBytes = 512

// MaxNoteBytes is what the API takes as the note of an Event.
//
// Source: Kubernetes API, events.k8s.io/v1, Event.note, "The maximum length is 1kB".
const MaxNoteBytes = 1024

// Bounded returns the beginning of a text that has at most that many bytes, without half a letter at its end, as it may
// be shown.
func Bounded(text string, most int) string {
	if text = Printable(text[:min(len(text), 2*most)]); len(text) > most {
		return strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// Quote returns the beginning of a text that somebody else wrote as it may be shown: in quotes, and printable.
func Quote(text string, most int) string {
	if len(text) > most {
		return strconv.Quote(strings.ToValidUTF8(text[:most], "")) + "..."
	}
	return strconv.Quote(text)
}

// RefusedBundle is a bundle that the runtime refused.
type RefusedBundle struct {
	Digest digest.Digest  `json:"digest,omitempty"`
	Reason refusal.Reason `json:"reason"`
	Detail string         `json:"detail"`
	Time   time.Time      `json:"time"`
}

type reportStatement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     Report    `json:"predicate"`
}

// ComposeReport signs the report with the runtime's key and gives the manifest to push; its config is the OCI empty
// descriptor, whose blob must exist too (EmptyBlob).
func ComposeReport(report Report, signer trust.Signer) (Blob, error) {
	// A statement needs a subject: the bundle that is described, or nothing yet.
	subject := subjectOf("none", EmptyBlob().Descriptor.Digest)
	if report.Observed != nil {
		subject = subjectOf("bundle", report.Observed.Digest)
	}
	if report.Features == nil {
		report.Features = AllFeatures()
	}
	signed, err := attestWithin(reportStatement{
		Type: StatementType, Subject: []Subject{subject}, PredicateType: PredicateReport, Predicate: report,
	}, signer, MaxReportBytes)
	if err != nil {
		return Blob{}, fmt.Errorf("report of runtime %s: %w", report.Runtime, err)
	}
	return reportManifest(signed)
}

func reportManifest(signed []byte) (Blob, error) {
	return NewManifest(ocispec.Manifest{
		ArtifactType: ArtifactTypeReport,
		Config:       ocispec.DescriptorEmptyJSON,
		Layers:       []ocispec.Descriptor{ocispec.DescriptorEmptyJSON},
		Annotations:  map[string]string{AnnotationReport: string(signed)},
	})
}

// EmptyBlob is the blob of the OCI empty descriptor.
func EmptyBlob() Blob { return NewBlob(ocispec.MediaTypeEmptyJSON, []byte(`{}`)) }

// Reporter is what the control plane knows of the runtime that a report claims to come from.
type Reporter struct {
	Runtime string
	// Fleet is the fleet's name; empty when its root has none.
	Fleet string
	// Key is the runtime's enrolled key, nil before enrollment.
	Key crypto.PublicKey
	// Owner is the Kyma that the runtime must belong to, zero for any. Former are those that handed the runtime over.
	Owner  trust.Kyma
	Former []trust.Kyma
	// ClusterUID is the cluster that enrolled Key, empty if unknown.
	ClusterUID string
	// LastSequence is that of the newest report of this Key accepted before.
	LastSequence int64
	// Now is the control plane's clock: reports are not accepted from further ahead than clocks may differ. Zero stands
	// for no clock.
	Now time.Time
	// Content decides whether what the runtime says can be what it has, for instance by the schemas of its API; nil takes
	// all that is within the limits of a report.
	Content func(Report) error
	// Known is what a report said that Content took, as AcceptedReport.Content; Content is not asked again for the same.
	Known digest.Digest
	// Enroll decides on an introduction; it is asked when Key is nil or another key introduces itself. Nil means that no
	// introduction counts.
	Enroll func(trust.Enrollment) error
	// Certified gives the key that a certificate is for; it is asked when Key is nil.
	Certified func(certificate string) (crypto.PublicKey, error)
	// Revoked tells keys that count for nothing any more; nil means that there are none.
	Revoked func(thumbprint string) bool
}

// AcceptedReport is a report that counts, with the key that signed it.
type AcceptedReport struct {
	Report
	Digest digest.Digest
	// Content is the digest of the report without its time, its sequence and the report that it follows.
	Content digest.Digest
	Key     crypto.PublicKey
	// Enrolled says that Key was introduced by this report.
	Enrolled bool
}

// VerifyReport decides whether the control plane may believe that the runtime said this. A report that was accepted
// before (the same sequence) is accepted again; an older one is not. Refusals are *Refusal.
func VerifyReport(fetched Fetched, from Reporter) (AcceptedReport, error) {
	accepted, refusal := verifyReport(fetched, from)
	if refusal != nil {
		return AcceptedReport{}, refusal
	}
	return accepted, nil
}

func verifyReport(fetched Fetched, from Reporter) (AcceptedReport, *refusal.Error) {
	manifest, refused := ReadManifest(fetched, ArtifactTypeReport)
	if refused != nil {
		return AcceptedReport{}, refused
	}
	signed, refused := readAttestationWithin([]byte(manifest.Annotations[AnnotationReport]), MaxReportBytes)
	if refused != nil {
		return AcceptedReport{}, refused
	}
	key, enrolled, refused := reportKey(signed, from)
	if refused != nil {
		return AcceptedReport{}, refused
	}
	payload, refused := signed.authenticate(key)
	if refused != nil {
		return AcceptedReport{}, refused
	}
	var statement reportStatement
	if refusal := decodeStatement(payload, PredicateReport, &statement); refusal != nil {
		return AcceptedReport{}, refusal
	}
	report := statement.Predicate
	if report.Runtime != from.Runtime {
		return AcceptedReport{}, refusal.New(refusal.WrongRuntime, "report is about runtime %s, this is the place of %q", Quote(report.Runtime, maxQuotedBytes), from.Runtime)
	}
	if from.Fleet != "" && report.Fleet != from.Fleet {
		return AcceptedReport{}, refusal.New(refusal.WrongRuntime, "report is of fleet %s, this is %q", Quote(report.Fleet, maxQuotedBytes), from.Fleet)
	}
	if refused := from.checkOwner(report); refused != nil {
		return AcceptedReport{}, refused
	}
	// A token can move the same key to another cluster.
	enrolled = enrolled || report.ClusterUID != from.ClusterUID && from.ClusterUID != "" && report.Enrollment != nil && from.introduces(*report.Enrollment, key)
	if refused := from.checkCluster(report, enrolled); refused != nil {
		return AcceptedReport{}, refused
	}
	if refused := from.checkClock(report, enrolled); refused != nil {
		return AcceptedReport{}, refused
	}
	if err := report.Check(); err != nil {
		return AcceptedReport{}, refusal.New(refusal.Malformed, "report: %w", err)
	}
	content := report.content()
	if from.Content != nil && (content == "" || content != from.Known) {
		if err := from.Content(report); err != nil {
			return AcceptedReport{}, refusal.New(refusal.Malformed, "report: %w", err)
		}
	}
	return AcceptedReport{Report: report, Digest: digest.FromBytes(fetched.Bytes), Content: content, Key: key, Enrolled: enrolled}, nil
}

// content is AcceptedReport's.
func (r Report) content() digest.Digest {
	r.Time, r.Sequence, r.Follows = time.Time{}, 0, ""
	text, err := json.Marshal(r)
	if err != nil {
		return "" // what was decoded encodes; nothing is equal to this
	}
	return digest.FromBytes(text)
}

// reportKey finds the key that must have signed: the enrolled one, or one that proves itself inside the report. The
// introduction is read before it is authenticated, but it proves itself: nobody without the token can make one, and the
// report must then be signed by exactly the key it introduces.
func reportKey(signed attestation, from Reporter) (crypto.PublicKey, bool, *refusal.Error) {
	hint := signed.VerificationMaterial.PublicKey.Hint
	if from.Revoked != nil && from.Revoked(hint) {
		return nil, false, refusal.New(refusal.Revoked, "signed with key %s, which is revoked: delete the agent's key and enroll it again", trust.ShortThumbprint(hint))
	}
	if from.Key != nil {
		known, err := trust.Thumbprint(from.Key)
		if err != nil {
			return nil, false, refusal.New(refusal.ForeignKey, "the enrolled key: %w", err)
		}
		if known == hint {
			return from.Key, false, nil
		}
	}
	var introduction struct {
		Predicate struct {
			Enrollment  *trust.Enrollment `json:"enrolment"`
			Certificate string            `json:"certificate"`
		} `json:"predicate"`
	}
	if err := checkJSON(signed.Envelope.Payload); err != nil {
		return nil, false, refusal.New(refusal.Malformed, "statement: %w", err)
	}
	if err := json.Unmarshal(signed.Envelope.Payload, &introduction); err != nil {
		return nil, false, refusal.New(refusal.Malformed, "statement: %w", err)
	}
	enrollment, certificate := introduction.Predicate.Enrollment, introduction.Predicate.Certificate
	if from.Key == nil && certificate != "" && from.Certified != nil {
		key, enrolled, refusal := certifiedKey(certificate, hint, from)
		if refusal == nil || enrollment == nil {
			return key, enrolled, refusal
		}
	}
	switch {
	case enrollment == nil && from.Key != nil:
		return nil, false, refusal.New(refusal.ForeignKey, "signed with key %s, which is not the runtime's", trust.ShortThumbprint(hint))
	case enrollment == nil:
		return nil, false, refusal.New(refusal.NotEnrolled, "the runtime's key is not known and the report neither introduces it nor has a certificate that is good: run `kcp-publisher enroll %s`, apply what it prints to the runtime, and restart its agent", from.Runtime)
	}
	return introducedKey(*enrollment, hint, from)
}

// introducedKey returns the key that a report introduces, where it is the one that signed.
func introducedKey(enrollment trust.Enrollment, hint string, from Reporter) (crypto.PublicKey, bool, *refusal.Error) {
	key, err := trust.DecodePublicKey(enrollment.PublicKey)
	if err != nil {
		return nil, false, refusal.New(refusal.Malformed, "enrollment: %w", err)
	}
	if introduced, err := trust.Thumbprint(key); err != nil || introduced != hint {
		return nil, false, refusal.New(refusal.ForeignKey, "introduces one key and is signed with another")
	}
	if from.Enroll == nil {
		return nil, false, refusal.New(refusal.ForeignKey, "introduces key %s, and none but the runtime's counts here", trust.ShortThumbprint(hint))
	}
	if err := from.Enroll(enrollment); err != nil {
		return nil, false, refusal.New(refusal.NotEnrolled, "enrollment: %w", err)
	}
	return key, true, nil
}

// introduces reports whether an enrollment is a valid introduction of a key.
func (from Reporter) introduces(enrollment trust.Enrollment, key crypto.PublicKey) bool {
	encoded, err := trust.EncodePublicKey(key)
	return err == nil && encoded == enrollment.PublicKey && from.Enroll != nil && from.Enroll(enrollment) == nil
}

// certifiedKey returns the key of a certificate, which the control plane issued itself, to one that does not know the
// runtime any more.
func certifiedKey(certificate, hint string, from Reporter) (crypto.PublicKey, bool, *refusal.Error) {
	key, err := from.Certified(certificate)
	if err != nil {
		return nil, false, refusal.New(refusal.NotEnrolled, "%w", err)
	}
	if certified, err := trust.Thumbprint(key); err != nil || certified != hint {
		return nil, false, refusal.New(refusal.ForeignKey, "shows the certificate of one key and is signed with another")
	}
	return key, true, nil
}
