// Package airgap writes and reads the air-gap file for a runtime without a network: one OCI image layout as a tar.
//
//	oci-layout, index.json   the named manifests, as "<repository>:<tag>", such as runtimes/berlin:desired
//	blobs/sha256/<hex>       all other content, in the order of the digests
//
// The same layout always has the same bytes, so an interrupted export can continue. The file can be compressed with
// zstd and divided into volumes (FILE.001, FILE.002, ...).
//
// Open compares every blob with its digest. It refuses entries that do not belong to an OCI image layout. It does not
// verify signatures; the importer does. ImageWalk visits the blobs of container images.
package airgap
