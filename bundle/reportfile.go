package bundle

import (
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// ReadReportFile reads a report that was carried as a file, without judging it. The error is a *refusal.Error.
func ReadReportFile(data []byte) (Fetched, error) {
	if len(data) > MaxManifestBytes {
		return Fetched{}, refusal.New(refusal.TooLarge, "report of %d bytes, at most %d", len(data), MaxManifestBytes)
	}
	return Fetched{Descriptor: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest}, Bytes: data}, nil
}

// ClaimedReport reads what a report says without knowing whether its runtime says so: enough to find out whom it is
// about, and never to believe it. What a later version added is skipped, as it is once the report is verified. The
// error is a *refusal.Error.
func ClaimedReport(fetched Fetched) (Report, error) {
	manifest, refused := ReadManifest(fetched, ArtifactTypeReport)
	if refused != nil {
		return Report{}, refused
	}
	signed, refused := readAttestationWithin([]byte(manifest.Annotations[AnnotationReport]), MaxReportBytes)
	if refused != nil {
		return Report{}, refused
	}
	var statement reportStatement
	if refusal := decodeStatement(signed.Envelope.Payload, PredicateReport, &statement); refusal != nil {
		return Report{}, refusal
	}
	if err := trust.CheckRuntimeID(statement.Predicate.Runtime); err != nil {
		return Report{}, refusal.New(refusal.Malformed, "report: %w", err)
	}
	return statement.Predicate, nil
}
