package bundle

// Limits for external input. The limits apply to bytes that were actually read, never to declared sizes.
const (
	// MaxManifestBytes limits an OCI manifest. Registries accept up to 4 MiB. A bundle's manifest contains one
	// attestation.
	MaxManifestBytes = 1 << 20
	// MaxAttestationBytes limits a bundle's attestation inside its annotation.
	MaxAttestationBytes = 64 << 10
	// MaxReportBytes limits a report. Agents truncate larger reports.
	MaxReportBytes = 256 << 10
	// MaxDocumentBytes limits a DesiredState or Catalog document. 100 modules with their templates need about 1 MiB.
	MaxDocumentBytes = 16 << 20
	// MaxLayerBytes limits the transferred size of a module's content blob, which can be compressed.
	MaxLayerBytes = 32 << 20
	// MaxBundleBytes limits a bundle together with all referenced content.
	MaxBundleBytes = 256 << 20
	// MaxManifests limits the modules in one runtime. Kyma has about 20 modules.
	MaxManifests = 500
	// MaxCatalogEntryBytes limits one ModuleTemplate or ModuleReleaseMeta in a Catalog. A Kyma ModuleTemplate with an
	// inline descriptor is 6 KiB.
	MaxCatalogEntryBytes = 256 << 10
	// MaxChannels limits the channels in one ModuleReleaseMeta.
	MaxChannels = 32
	// MaxManifestsBytes limits the encoded Manifests in a DesiredState.
	MaxManifestsBytes = 6 << 20
	MaxOffersBytes    = 4 << 20
	// MaxOffers limits the Offers in a DesiredState. It allows 500 modules in four channels each.
	MaxOffers = 2_000
)
