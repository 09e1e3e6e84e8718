package bundle

// Limits on everything that comes from outside. They are far above what honest content needs and far below what hurts
// an agent with 128 MiB of memory; all count bytes actually read, never sizes somebody declared.
const (
	// MaxManifestBytes bounds an OCI manifest. Registries take up to 4 MiB; a bundle's holds one attestation.
	MaxManifestBytes = 1 << 20
	// MaxAttestationBytes bounds a bundle's attestation inside its annotation.
	MaxAttestationBytes = 64 << 10
	// MaxReportBytes bounds a report's: MaxManifests modules, installed and asked for, with names of usual length. What
	// does not fit is left out by the agent in steps.
	MaxReportBytes = 256 << 10
	// MaxDocumentBytes bounds a DesiredState or Catalog document: 100 modules with their templates are about 1 MiB.
	MaxDocumentBytes = 16 << 20
	// MaxLayerBytes bounds a module's content blob as it travels (compressed where it is).
	MaxLayerBytes = 32 << 20
	// MaxBundleBytes bounds a bundle together with all content it refers to.
	MaxBundleBytes = 256 << 20
	// MaxManifests bounds the modules of one runtime. Kyma has about 20.
	MaxManifests = 500
	// MaxCatalogEntryBytes bounds one ModuleTemplate or ModuleReleaseMeta in a Catalog. One of Kyma's with an inline
	// descriptor has 6 KiB.
	MaxCatalogEntryBytes = 256 << 10
	// MaxChannels bounds the channels of one ModuleReleaseMeta. MaxOffers allows for four per module.
	MaxChannels = 32
	// MaxManifestsBytes bounds the encoded Manifests of a DesiredState, and MaxOffersBytes its Offers, so that both and
	// the rest of the document stay below MaxDocumentBytes.
	MaxManifestsBytes = 6 << 20
	MaxOffersBytes    = 4 << 20
	// MaxOffers bounds what a runtime with autonomy may choose from: its catalog's modules at four channels each.
	MaxOffers = 2_000
)
