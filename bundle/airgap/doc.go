// Package airgap writes and reads the file that people carry to a runtime without a network: one OCI image layout as a
// tar.
//
//	oci-layout, index.json   the named manifests, as "<repository>:<tag>", such as runtimes/berlin:desired
//	blobs/sha256/<hex>       everything else, in the order of the digests
//
// The same layout always has the same bytes, so an interrupted export can continue and two people can compare their
// files. The file can be compressed with zstd and divided into volumes (FILE.001, FILE.002, ...).
//
// Open does not trust the file: it reads every byte once, compares every blob with its digest and refuses all other
// entries. It does not verify signatures; the importer does. ImageWalk visits the blobs of container images, within
// limits that export and import share.
package airgap
