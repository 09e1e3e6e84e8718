// Package bundle is the wire between the control plane and a runtime: everything both sides must agree on, and nothing
// else.
//
// The control plane (KCP) decides what a runtime shall run and says so in a bundle: one OCI image manifest in a
// registry, or in a folder carried by hand. The runtime's agent pulls that manifest. Neither side talks to the other,
// so whoever owns the registry or the network sits between them, and nothing is believed because of where it lies.
//
// # A bundle
//
//	manifest   artifactType application/vnd.kyma-pull.bundle.v1
//	├── config       DesiredState: what to install. Names no runtime, so that equal runtimes share the blob.
//	├── layers[0]    Catalog: the modules this runtime may see. Shared in the same way.
//	└── annotations  dev.kyma-pull.bundle.attestation: who gets it, from whom, since when and until when
//
// The attestation is a sigstore bundle v0.3 with one DSSE signature over an in-toto Statement v1. Its subjects are the
// sha256 digests of config and layers, its predicate binds them to one runtime, one position in that runtime's history
// (epoch, sequence, previous) and one stretch of time. Because signature and content become visible in the same PUT, a
// reader sees the old bundle or the new one, never half of either.
//
// # Accepting one
//
// Verify decides from the manifest's bytes alone; it fetches nothing. The order matters: bytes are bounded before they
// are parsed, authenticated before they are interpreted, and judged (audience, epoch, time, sequence) before anything
// they point to is fetched. Open then takes the blobs the statement names, checks their digests and decodes exactly
// those bytes. What fails is a *Refusal with a Reason that a person and a metric can read.
//
// # Trust
//
// A Root lists the keys that may sign for a fleet. It is pinned in the agent's installation. The key found in the root
// fixes the algorithm; the message never does.
//
// # Reports
//
// A runtime answers with a report: again one manifest and one PUT, signed with a key that never leaves the runtime. It
// names the digest of the bundle it describes, because a status counts only for the digest it names.
package bundle
