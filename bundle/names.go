package bundle

import (
	"strconv"
	"strings"
)

// Media types and artifact types on the wire. A format change requires a new version suffix.
const (
	ArtifactTypeBundle    = "application/vnd.kyma-pull.bundle.v1"
	ArtifactTypeReport    = "application/vnd.kyma-pull.report.v1"
	ArtifactTypeRoot      = "application/vnd.kyma-pull.root.v1"
	ArtifactTypeContent   = "application/vnd.kyma-pull.content.v1"
	MediaTypeDesiredState = "application/vnd.kyma-pull.desired-state.v1+json"
	MediaTypeCatalog      = "application/vnd.kyma-pull.catalog.v1+json"
	ArtifactTypeCarried   = "application/vnd.kyma-pull.carried.v1"
	MediaTypeCarried      = "application/vnd.kyma-pull.carried.v1+json"
	MediaTypeRoot         = "application/vnd.kyma-pull.root.v1+json"

	// AnnotationAttestation contains a bundle's attestation. AnnotationReport contains a runtime's signed report.
	AnnotationAttestation = "dev.kyma-pull.bundle.attestation"
	AnnotationReport      = "dev.kyma-pull.report"
)

// Predicate types of the in-toto statements.
const (
	PredicateDesiredState = "https://kyma-pull.dev/desired-state/v1"
	PredicateReport       = "https://kyma-pull.dev/report/v1"
	PredicateCarried      = "https://kyma-pull.dev/carried/v1"
)

// Tags for each runtime's bundle (TagDesired) and report (TagLatest).
const (
	TagDesired = "desired"
	TagLatest  = "latest"
	// TagRoot is the prefix for root of trust tags, such as root-2 for version 2.
	TagRoot = "root-"
)

// Repositories that all runtimes in a fleet share. The paths are relative to the registry prefix.
const (
	// ContentRepository contains module content. Every runtime can read it.
	ContentRepository = "content"
	// DocumentsRepository contains all bundles' documents. Runtimes cannot read it, so they cannot see other runtimes'
	// modules.
	DocumentsRepository = "documents"
	// TrustRepository contains the root of trust versions.
	TrustRepository = "trust"
	// PruningRepository stores the time when each manifest became unused. The command `prune` writes to it.
	PruningRepository = "pruning"
)

// CarriedRepository contains the signed image lists of air-gap files. The path is relative to the registry prefix.
const CarriedRepository = "carried"

// ImageRepository returns the repository that receives imported images, for the source repository with the given name.
// For example, it returns images/ghcr.io/org/app for ghcr.io/org/app. The path is relative to the registry prefix.
func ImageRepository(name string) string { return "images/" + strings.ReplaceAll(name, ":", "-") }

// DesiredRepository returns the repository for a runtime's bundle. The path is relative to the registry prefix.
func DesiredRepository(runtime string) string { return "runtimes/" + runtime }

// ReportRepository returns the repository for a runtime's report. The path is relative to the registry prefix.
func ReportRepository(runtime string) string { return "reports/" + runtime }

// RootTag returns the tag for a root of trust version in the TrustRepository.
func RootTag(version int64) string { return TagRoot + strconv.FormatInt(version, 10) }
