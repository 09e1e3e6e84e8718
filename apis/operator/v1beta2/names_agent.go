package v1beta2

// What the agent notes on its own Deployment. Annotations of a Deployment outlive every pod.
const (
	// AnnotationProvenImage is ours: on the agent's Deployment, the last image of the agent that did its work without a
	// break for the time of its trial. The agent goes back to it.
	AnnotationProvenImage = "kyma-pull.dev/proven-image"
	// AnnotationFailedImage is ours: on the agent's Deployment, the image that was rolled back. The agent does not take it
	// again until its bundle has named another one.
	AnnotationFailedImage = "kyma-pull.dev/failed-image"
	// AnnotationUnprovenStarts is ours: on the agent's Deployment, as POD:COUNT, how often a pod started while its image
	// was not proven. After too many the image is rolled back.
	AnnotationUnprovenStarts = "kyma-pull.dev/unproven-starts"
)

// What the Secrets have in which the agent keeps content.
const (
	// LabelContent is ours: on a Secret in kyma-system with content that the agent keeps, "index" or "chunk". A blob is
	// there as a whole once its index is.
	LabelContent = "kyma-pull.dev/content"
	// LabelContentDigest is ours: on a Secret with content that the agent keeps, the start of the blob's digest, by which
	// all of its Secrets are selected.
	LabelContentDigest = "kyma-pull.dev/content-digest"
	// AnnotationContentDigest is ours: on a Secret with content that the agent keeps, the digest of the whole blob.
	AnnotationContentDigest = "kyma-pull.dev/content-digest"
	// AnnotationContentChunks is ours: on the Secret that is the index of a blob, or its only chunk, how many chunks the
	// blob has.
	AnnotationContentChunks = "kyma-pull.dev/content-chunks"
	// AnnotationContentSize is ours: on the Secret that is the index of a blob, or its only chunk, how many bytes the blob
	// has before it is compressed.
	AnnotationContentSize = "kyma-pull.dev/content-size"
)
