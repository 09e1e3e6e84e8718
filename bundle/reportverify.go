package bundle

import (
	"fmt"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

type reportStatement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     Report    `json:"predicate"`
}

// ComposeReport signs the report with the runtime's key and returns the manifest. The caller must also push EmptyBlob,
// the manifest's config.
func ComposeReport(report Report, signer trust.Signer) (Blob, error) {
	// An in-toto statement needs a subject. Before the first bundle, the subject is a placeholder.
	subject := newSubject("none", EmptyBlob().Descriptor.Digest)
	if report.Observed != nil {
		subject = newSubject("bundle", report.Observed.Digest)
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

// VerifyReport verifies that a report was signed by the runtime and is not older than the last accepted report. A
// refusal is a *refusal.Error.
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
	// If an operator moves an agent's key to another cluster, the agent enrolls the known key again with a new token.
	enrolled = enrolled ||
		report.ClusterUID != from.ClusterUID && from.ClusterUID != "" && report.Enrollment != nil &&
			from.isIntroduced(*report.Enrollment, key)
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
