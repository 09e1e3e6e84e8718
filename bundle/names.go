package bundle

import (
	"strconv"
	"strings"
)

// Media types and artifact types of what travels. They are contracts: a change needs a new version suffix.
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

	// AnnotationAttestation carries a bundle's attestation, AnnotationReport a runtime's signed report.
	AnnotationAttestation = "dev.kyma-pull.bundle.attestation"
	AnnotationReport      = "dev.kyma-pull.report"
)

// Predicate types of the in-toto statements, compared on both sides so that one cannot stand for another.
const (
	PredicateDesiredState = "https://kyma-pull.dev/desired-state/v1"
	PredicateReport       = "https://kyma-pull.dev/report/v1"
	PredicateCarried      = "https://kyma-pull.dev/carried/v1"
)

// Tags of the two artifacts every runtime has.
const (
	TagDesired = "desired"
	TagLatest  = "latest"
	// TagRoot, followed by the version, is a version of the root of trust.
	TagRoot = "root-"
)

// Shared repositories below the prefix.
const (
	// ContentRepository holds content of modules, which every runtime may read.
	ContentRepository = "content"
	// DocumentsRepository holds the documents of bundles, which are mounted into runtimes' repositories from there. No
	// runtime may read it: what another one runs is not its business.
	DocumentsRepository = "documents"
	// TrustRepository holds the versions of the root of trust.
	TrustRepository = "trust"
	// PruningRepository holds the note of since when manifests are unused, of whoever prunes the registry.
	PruningRepository = "pruning"
)

// CarriedRepository is the repository, below the prefix, of signed lists of carried images.
const CarriedRepository = "carried"

// ImageRepository is the repository, below the prefix, that the images of a repository elsewhere are carried to:
// "images/", then its host, whose port follows a dash, then its path.
func ImageRepository(name string) string { return "images/" + strings.ReplaceAll(name, ":", "-") }

// DesiredRepository is the repository, below the prefix, of a runtime's bundle.
func DesiredRepository(runtime string) string { return "runtimes/" + runtime }

// ReportRepository is the repository, below the prefix, of a runtime's report.
func ReportRepository(runtime string) string { return "reports/" + runtime }

// RootTag names a version of the root in the TrustRepository.
func RootTag(version int64) string { return TagRoot + strconv.FormatInt(version, 10) }
