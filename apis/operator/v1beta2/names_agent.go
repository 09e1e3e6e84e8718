package v1beta2

// Annotations that the agent sets on its own Deployment. They persist when its pod is replaced.
const (
	// AnnotationProvenImage is the last agent image that worked without interruption during its trial period. The agent
	// rolls back to this image.
	AnnotationProvenImage = "kyma-pull.dev/proven-image"
	// AnnotationFailedImage is an agent image that failed its trial, so the agent rolled back to the previous image.
	// The agent does not use the failed image again until a bundle names a different image. If the bundle does not name
	// an image, the agent waits until a different image has passed its trial.
	AnnotationFailedImage = "kyma-pull.dev/failed-image"
	// AnnotationFormerImages lists the digests of agent images that bundles replaced. The agent returns to one of these
	// images only if its bundle explicitly requests the rollback.
	AnnotationFormerImages = "kyma-pull.dev/former-images"
	// AnnotationUndecidedImage has the format "COUNT IMAGE". IMAGE is an agent image, and COUNT is the number of its
	// trials that the agent ended early because the registry did not work. The agent tries the image again when the
	// registry works.
	AnnotationUndecidedImage = "kyma-pull.dev/undecided-image"
	// AnnotationRequestedImage is the last agent image that the agent set because a bundle requested it. If this image
	// is also in AnnotationUndecidedImage, the agent tries it again only while a bundle requests it.
	AnnotationRequestedImage = "kyma-pull.dev/requested-image"
	// AnnotationUnprovenStarts is how often each pod whose image is not proven has started, as POD:COUNT,… After too
	// many starts, the agent rolls the image back.
	AnnotationUnprovenStarts = "kyma-pull.dev/unproven-starts"
)

// Labels and annotations on the Secrets in kyma-system in which the agent stores content.
const (
	// LabelContent is "chunk" on a Secret that contains part of a blob, and "index" on the Secret that completes a blob
	// with several chunks.
	LabelContent = "kyma-pull.dev/content"
	// LabelContentDigest is a prefix of the blob's digest. It selects all of the blob's Secrets.
	LabelContentDigest = "kyma-pull.dev/content-digest"
	// AnnotationContentDigest is the digest of the whole blob.
	AnnotationContentDigest = "kyma-pull.dev/content-digest"
	// AnnotationContentChunks is the number of chunks in the blob. It is set on the blob's index or, without an index,
	// on its only chunk.
	AnnotationContentChunks = "kyma-pull.dev/content-chunks"
	// AnnotationContentSize is the size of the blob in bytes before compression. It is set on the same Secret as
	// AnnotationContentChunks.
	AnnotationContentSize = "kyma-pull.dev/content-size"
	// AnnotationContentName is the content Secret's name with the digest, if the Secret itself has a different name
	// because the agent's role lists its Secrets by name.
	AnnotationContentName = "kyma-pull.dev/content-name"
)
