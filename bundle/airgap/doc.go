// Package airgap is the file that is carried to a runtime which no network reaches: one OCI image layout as a tar,
// written on one side and read on the other.
//
//	oci-layout, index.json   what is named, as "<repository>:<tag>", such as runtimes/berlin:desired
//	blobs/sha256/<hex>       everything else, in the order of the digests
//
// The same layout always gives the same bytes, so that a file that was cut off is continued and two people can compare
// theirs. It may be compressed with zstd and cut into volumes (FILE.001, FILE.002, ...), which joined give the file
// again.
//
// Open believes nothing: it reads every byte once, compares every blob with its digest and refuses whatever does not
// belong into such a file. What the blobs say, and whether it may be followed, is not its business. ImageWalk visits
// container images with the limits that both sides keep to.
package airgap
