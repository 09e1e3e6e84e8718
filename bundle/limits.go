package bundle

// Limits for external input. They are far above the needs of honest content and far below the memory of a 128 MiB
// agent. The limits apply to bytes that were actually read, never to declared sizes.
const (
	// MaxManifestBytes limits an OCI manifest. Registries accept up to 4 MiB. A bundle's manifest contains one
	// attestation.
	MaxManifestBytes = 1 << 20
	// MaxAttestationBytes limits a bundle's attestation inside its annotation.
	MaxAttestationBytes = 64 << 10
	// MaxReportBytes limits a report. It is enough for MaxManifests installed and requested modules with names of
	// typical length. The agent truncates larger reports in steps.
	MaxReportBytes = 256 << 10
	// MaxDocumentBytes limits a DesiredState or Catalog document. 100 modules with their templates need about 1 MiB.
	MaxDocumentBytes = 16 << 20
	// MaxLayerBytes limits the transferred size of a module's content blob, which can be compressed.
	MaxLayerBytes = 32 << 20
	// MaxBundleBytes limits a bundle together with all referenced content.
	MaxBundleBytes = 256 << 20
	// MaxManifests limits the modules of one runtime. Kyma has about 20.
	MaxManifests = 500
	// MaxCatalogEntryBytes limits one ModuleTemplate or ModuleReleaseMeta in a Catalog. A Kyma ModuleTemplate with an
	// inline descriptor has 6 KiB.
	MaxCatalogEntryBytes = 256 << 10
	// MaxChannels limits the channels of one ModuleReleaseMeta. MaxOffers allows four channels per module.
	MaxChannels = 32
	// MaxManifestsBytes limits the encoded Manifests of a DesiredState, and MaxOffersBytes limits its encoded Offers.
	// With these limits, the whole document is smaller than MaxDocumentBytes.
	MaxManifestsBytes = 6 << 20
	MaxOffersBytes    = 4 << 20
	// MaxOffers limits the offers for a runtime with autonomy: its catalog's modules in four channels each.
	MaxOffers = 2_000
)
