// Package bundle defines the wire format between the control plane and a runtime. It contains only rules that both
// sides must share.
//
// The control plane (KCP) decides which modules a runtime must run and publishes them in a bundle: one OCI image
// manifest in a registry, or in a folder that an operator carries to the runtime. The runtime's agent pulls that
// manifest. The two sides never connect directly. Other parties can operate the registry and the network between them,
// so the location of a bundle does not authenticate the bundle.
//
// # A bundle
//
//	manifest   artifactType application/vnd.kyma-pull.bundle.v1
//	├── config       DesiredState: the modules to install. Runtimes with the same modules share this blob.
//	├── layers[0]    Catalog: the modules that a runtime can choose from. Runtimes also share this blob.
//	└── annotations  dev.kyma-pull.bundle.attestation: the audience, the signer and the validity period
//
// The attestation is a sigstore bundle v0.3 with one DSSE signature over an in-toto Statement v1. The statement's
// subjects are the sha256 digests of config and layers. Its predicate binds the documents to one runtime, one position
// in that runtime's history (epoch, sequence, previous) and one period of time. A single PUT publishes the signature
// together with the content, so a reader sees either the old bundle or the new one, never a mix.
//
// # Accepting a bundle
//
// Verify decides from the manifest's bytes alone and does not fetch blobs. The order of its checks matters. Verify
// checks the size of its input before it parses the input, and authenticates the input before it interprets the
// content. It checks audience, epoch, time and sequence before any referenced content is fetched. Open then takes the
// referenced blobs, checks their digests and decodes exactly those bytes. A failed check returns a *refusal.Error with
// a stable Reason for programs and metrics, and a Detail for people.
//
// # Trust
//
// A Root lists the keys that can sign for a fleet. The agent's installation pins a Root. The key in the Root
// determines the signature algorithm. A signed message never does.
//
// # Reports
//
// A runtime responds with a report, also as one manifest in one PUT. The agent signs the report with a key that never
// leaves the runtime. The report contains the digest of the bundle that it describes, because its content is valid
// only for that bundle.
package bundle
