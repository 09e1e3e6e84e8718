package bundle

import (
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// ReadReportFile reads a report from a file without verifying it. The error is a *refusal.Error.
func ReadReportFile(data []byte) (Fetched, error) {
	if len(data) > MaxManifestBytes {
		return Fetched{}, refusal.New(refusal.TooLarge, "report is %d bytes, must be at most %d", len(data),
			MaxManifestBytes)
	}
	return Fetched{Descriptor: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest}, Bytes: data}, nil
}

// ClaimedReport decodes a report without authenticating it. Use it only to find the name of the runtime. The error is a
// *refusal.Error.
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
