package bundle

import (
	"crypto"
	"encoding/json"
	"fmt"
	"slices"
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

// Report is a runtime's report about itself. The runtime's key signs it. Its content is a claim of the runtime.
type Report struct {
	Runtime string `json:"runtime"`
	// Fleet is the fleet of the runtime's root of trust. Without this field, a report could be accepted in another
	// fleet in which the same key was used.
	Fleet string `json:"fleet,omitempty"`
	// Sequence grows with every report that a key signs; see NextReportSequence.
	Sequence int64 `json:"sequence"`
	// Time is the time when the runtime wrote the report, by its own clock. The control plane uses its own clock to
	// detect silent runtimes.
	Time time.Time `json:"time"`
	// AgentVersion and KubernetesVersion are the versions that the agent and API server print, such as "v1.36.3".
	AgentVersion      string `json:"agentVersion"`
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// ClusterUID is the UID of the runtime's kube-system namespace.
	ClusterUID string `json:"clusterUID,omitempty"`
	// Recipient is the age recipient to which the runtime's Secrets are encrypted.
	Recipient string `json:"recipient,omitempty"`
	// Observed is the accepted bundle that the report describes, or nil if there is none yet.
	Observed *Observed `json:"observed,omitempty"`
	// Kyma is the runtime's own Kyma, or nil if it does not exist.
	Kyma *ReportedKyma `json:"kyma,omitempty"`
	// Modules lists the installed modules, sorted by name, including modules that the bundle no longer contains.
	Modules []ReportedModule `json:"modules,omitempty"`
	// Refused lists the bundles that were refused since the last accepted one, newest last, at most MaxRefusedReported.
	Refused []RefusedBundle `json:"refused,omitempty"`
	// Enrollment is set until the agent knows that the control plane has the runtime's key.
	Enrollment *trust.Enrollment `json:"enrolment,omitempty"`
	// Certificate is the certificate that the control plane issued to the runtime's key, in PEM. It identifies the key
	// to a control plane that lost its data.
	Certificate string `json:"certificate,omitempty"`
	// CertificateRequest requests a certificate, in PEM (PKCS #10). It is set if the agent has no certificate, or after
	// a third of the certificate's lifetime.
	CertificateRequest string `json:"certificateRequest,omitempty"`
	// CheckRun is the result of the latest check run since the agent started. It is nil during a run, and if the report
	// would be too large.
	CheckRun *ReportedCheckRun `json:"checkRun,omitempty"`
	// Decided lists the modules that the runtime chose, changed or removed by itself since the applied bundle, sorted.
	Decided []string `json:"decided,omitempty"`
	// AgentProblem is the reason why the agent does not run the image in the bundle's settings, or empty if it does.
	AgentProblem string `json:"agentProblem,omitempty"`
	// Trouble describes objects that the agent could not write in its runtime, or nil.
	Trouble *ReportedTrouble `json:"trouble,omitempty"`
	// Secrets is the outcome for the Secrets of the applied bundle, or nil if the bundle has no Secrets.
	Secrets *ReportedSecrets `json:"secrets,omitempty"`
	// Watched lists the changes that the applied bundle's watchers observed, sorted by watcher.
	Watched []ReportedWatch `json:"watched,omitempty"`
	// Takeover is the progress of the takeover from another product, or nil if the applied bundle has no takeover.
	Takeover *ReportedTakeover `json:"takeover,omitempty"`
	// Truncated lists the omitted parts of a report that would be too large, or nil if it is complete.
	Truncated *Truncated `json:"truncated,omitempty"`
	// Features lists the features that the agent supports, sorted. ComposeReport sets it to the features of its own
	// version if it is nil.
	Features []Feature `json:"features,omitempty"`
	// Owner is the Kyma that the runtime belongs to, or nil if the agent does not know its Kyma yet.
	Owner *trust.Kyma `json:"owner,omitempty"`
	// Instance is a random value that the agent chooses when it starts. If reports alternate between two instances, two
	// agents use the same key.
	Instance string `json:"instance,omitempty"`
	// Follows is the digest of the report that this agent found in the registry, or empty if it found none. The reports
	// of one agent form a chain.
	Follows digest.Digest `json:"follows,omitempty"`
	// Confirmed is true once the agent has found its own report in the registry often enough to be the only agent with
	// its key. The publisher ignores the requests of a new instance until then.
	Confirmed bool `json:"confirmed,omitempty"`
	// Twin is the instance of another agent that uses the same key and replaced this agent's report.
	Twin string `json:"twin,omitempty"`
}

// Truncated lists the omitted parts of a report. An omitted module still exists.
type Truncated struct {
	// Details is true if details of modules were omitted.
	Details bool `json:"details,omitempty"`
	// Messages is true if messages were shortened or omitted. Objects is true if Manifest and Resource were omitted.
	Messages bool `json:"messages,omitempty"`
	Objects  bool `json:"objects,omitempty"`
	// Lists is true if watched changes or decided modules were omitted.
	Lists bool `json:"lists,omitempty"`
	// Modules is the number of omitted installed modules.
	Modules int `json:"modules,omitempty"`
	// Requested is the number of modules that the runtime's Kyma requests, if the report omits them.
	Requested int `json:"asked,omitempty"`
}

// OmitsModules reports whether the report omits installed modules.
func (r Report) OmitsModules() bool { return r.Truncated != nil && r.Truncated.Modules > 0 }

// OmitsRequest reports whether the report omits the modules that the runtime's Kyma requests.
func (r Report) OmitsRequest() bool { return r.Truncated != nil && r.Truncated.Requested > 0 }

// MaxRefusedReported limits the refused bundles in a report, so an attacker cannot displace the rest of the report.
const MaxRefusedReported = 8

// Observed identifies the bundle that a report describes.
type Observed struct {
	Epoch    int64         `json:"epoch"`
	Sequence int64         `json:"sequence"`
	Digest   digest.Digest `json:"digest"`
	// Expired is true if the bundle has expired. An expired bundle stays in effect until a newer one arrives.
	Expired bool `json:"expired,omitempty"`
}

// ReportedKyma is the runtime's own Kyma.
type ReportedKyma struct {
	Spec       v1beta2.KymaSpec `json:"spec"`
	Generation int64            `json:"generation"`
	Deleting   bool             `json:"deleting,omitempty"`
	State      v1beta2.State    `json:"state,omitempty"`
}

// ReportedModule is an installed module.
type ReportedModule struct {
	Name    string `json:"name"`
	Channel string `json:"channel,omitempty"`
	// Version is the version that was last applied. Wanted is the version in the module's Manifest if it differs from
	// Version. The agent is applying that version or could not apply it; see State.
	Version string        `json:"version,omitempty"`
	Wanted  string        `json:"wanted,omitempty"`
	State   v1beta2.State `json:"state"`
	// Reason is the reason why the state is not Ready or why an upgrade waits: one of reason.Modules, or empty from an
	// agent without reasons.
	Reason reason.Reason `json:"reason,omitempty"`
	// Message explains the reason in readable form, at most MaxMessageBytes.
	Message string `json:"message,omitempty"`
	// Maintenance is true if an upgrade waits for a maintenance window, which Message names. State and Version describe
	// the installed version.
	Maintenance bool `json:"maintenance,omitempty"`
	// Manifest and Resource identify the Manifest object and the module's default CR.
	Manifest *v1beta2.TrackingObject `json:"manifest,omitempty"`
	Resource *v1beta2.TrackingObject `json:"resource,omitempty"`
	// Checks are the results of the checks in the module's Manifest, sorted by name. A check without a result is
	// missing.
	Checks []ReportedCheck `json:"checks,omitempty"`
	// Details are the details that the settings request, or nil if they request none.
	Details *ModuleDetails `json:"details,omitempty"`
}

// ReportedCheck is the result of a check of one module. Passes, Failures and Unknowns count the measurements.
type ReportedCheck struct {
	v1beta2.CheckOutcome
	Passes   int32 `json:"passes,omitempty"`
	Failures int32 `json:"failures,omitempty"`
	Unknowns int32 `json:"unknowns,omitempty"`
}

// ReportedTrouble describes objects that an agent could not write.
type ReportedTrouble struct {
	// Reason is the reason for condition Synced.
	Reason string `json:"reason"`
	// Message contains the objects and the cause, at most MaxMessageBytes.
	Message string `json:"message"`
	// Catalog is true if some of the objects are ModuleTemplates or ModuleReleaseMetas.
	Catalog bool `json:"catalog,omitempty"`
}

// ReportedSecrets is the outcome for sealed Secrets.
type ReportedSecrets struct {
	// Revision is the revision of the Sealed that the outcome refers to.
	Revision string `json:"revision"`
	// Reason is the cause of Trouble: one of reason.Secrets, or empty without Trouble or if the agent does not
	// report reasons.
	Reason reason.Reason `json:"reason,omitempty"`
	// Trouble lists the Secrets that differ from the bundle and the cause, at most MaxMessageBytes. Empty if all match.
	Trouble string `json:"trouble,omitempty"`
}

// MaxMessageBytes limits one message in a report. Agents omit messages if many modules fail.
const MaxMessageBytes = 512

// MaxNoteBytes is the API's size limit for the note of an Event.
//
// Source: Kubernetes API, events.k8s.io/v1, Event.note, "The maximum length is 1kB".
const MaxNoteBytes = 1024

// Bounded makes a text printable and truncates it to at most the given number of bytes. It never splits a character.
func Bounded(text string, most int) string {
	if text = Printable(text[:min(len(text), 2*most)]); len(text) > most {
		return strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// Quote truncates an external text and returns it quoted and printable.
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

// ComposeReport signs the report with the runtime's key and returns the manifest to push. Its config is the OCI empty
// descriptor, so the caller must push EmptyBlob too.
func ComposeReport(report Report, signer trust.Signer) (Blob, error) {
	// A statement needs a subject: the described bundle, or a placeholder before the first bundle.
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

// EmptyBlob returns the blob of the OCI empty descriptor.
func EmptyBlob() Blob { return NewBlob(ocispec.MediaTypeEmptyJSON, []byte(`{}`)) }

// Reporter contains the control plane's data about the runtime that a report claims to come from.
type Reporter struct {
	Runtime string
	// Fleet is the fleet's name, or empty if its root has none.
	Fleet string
	// Key is the runtime's enrolled key, nil before enrollment.
	Key crypto.PublicKey
	// Owner is the Kyma that the runtime must belong to, or zero to accept any. Former are the runtime's previous
	// Kymas.
	Owner  trust.Kyma
	Former []trust.Kyma
	// ClusterUID is the cluster that enrolled Key, empty if unknown.
	ClusterUID string
	// LastSequence is the sequence of the last accepted report that Key signed.
	LastSequence int64
	// Now is the control plane's clock. Reports from further ahead than the allowed clock skew are refused. Zero
	// disables the check.
	Now time.Time
	// Content decides whether the report's content is plausible, for example by the API's schemas. Nil accepts all
	// content within the limits of a report.
	Content func(Report) error
	// Known is the AcceptedReport.Content of a report that the function Content accepted. The function is not called
	// again for equal content.
	Known digest.Digest
	// Enroll decides on an enrollment. It is called if Key is nil or another key enrolls. Nil refuses every enrollment.
	Enroll func(trust.Enrollment) error
	// Certified returns the key of a certificate. It is called if Key is nil.
	Certified func(certificate string) (crypto.PublicKey, error)
	// Revoked reports whether a key is revoked. Nil means that no key is revoked.
	Revoked func(thumbprint string) bool
}

// AcceptedReport is a verified report with the key that signed it. Its Enrollment is nil unless its token was verified.
type AcceptedReport struct {
	Report
	Digest digest.Digest
	// Content is the digest of the report without its time, sequence, previous report and details. It covers the
	// results of checks, but not their measurements.
	Content digest.Digest
	Key     crypto.PublicKey
	// Enrolled is true if this report enrolled Key.
	Enrolled bool
}

// VerifyReport decides whether a report really comes from the runtime. It accepts the last accepted report (with the
// same sequence) again, but not an older one. A refusal is a *refusal.Error.
func VerifyReport(fetched Fetched, from Reporter) (AcceptedReport, error) {
	accepted, refusal := verifyReport(fetched, from)
	if refusal != nil {
		return AcceptedReport{}, refusal
	}
	return accepted, nil
}

func verifyReport(fetched Fetched, from Reporter) (AcceptedReport, *refusal.Error) {
	var proven *trust.Enrollment
	from.Enroll = provenBy(from.Enroll, &proven)
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
	if refused := from.checkIdentity(report); refused != nil {
		return AcceptedReport{}, refused
	}
	// A token can move the same key to another cluster.
	enrolled = enrolled ||
		report.ClusterUID != from.ClusterUID && from.ClusterUID != "" && report.Enrollment != nil &&
			from.introduces(*report.Enrollment, key)
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
	report.Enrollment = proven
	return AcceptedReport{
		Report:   report,
		Digest:   digest.FromBytes(fetched.Bytes),
		Content:  content,
		Key:      key,
		Enrolled: enrolled,
	}, nil
}

// checkIdentity refuses a report of another runtime, fleet or Kyma.
func (from Reporter) checkIdentity(report Report) *refusal.Error {
	if report.Runtime != from.Runtime {
		return refusal.New(refusal.WrongRuntime, "found a report of runtime %s in the repository of runtime %q",
			Quote(report.Runtime, maxQuotedBytes), from.Runtime)
	}
	if from.Fleet != "" && report.Fleet != from.Fleet {
		return refusal.New(refusal.WrongRuntime, "report has fleet %s, must be %q", Quote(report.Fleet, maxQuotedBytes),
			from.Fleet)
	}
	return from.checkOwner(report)
}

// content returns AcceptedReport.Content.
func (r Report) content() digest.Digest {
	r = r.WithoutDetails() // details change often, and no decision depends on them
	r.Time, r.Sequence, r.Follows = time.Time{}, 0, ""
	r.Modules = slices.Clone(r.Modules)
	for i := range r.Modules {
		checks := slices.Clone(r.Modules[i].Checks)
		for n, c := range checks {
			checks[n] = ReportedCheck{CheckOutcome: v1beta2.CheckOutcome{Name: c.Name, Result: c.Result}}
		}
		r.Modules[i].Checks = checks
	}
	text, err := json.Marshal(r)
	if err != nil {
		return "" // cannot happen for a decoded report; callers never treat an empty digest as equal
	}
	return digest.FromBytes(text)
}
