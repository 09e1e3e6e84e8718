package bundle

import (
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Fetched is a manifest from a registry with its descriptor.
type Fetched struct {
	// Descriptor contains the media type from the registry's response and the manifest's digest.
	Descriptor ocispec.Descriptor
	Bytes      []byte
}

// Trust contains the data that a runtime needs to verify a bundle.
type Trust struct {
	Root    trust.Root
	Runtime string
	// ClusterUID and KeyThumbprint identify the runtime. Verify compares them with the bundle's audience, unless they
	// are empty.
	ClusterUID    string
	KeyThumbprint string
	// ClockSkew limits how far a bundle's issue time can be ahead of the runtime's clock. 0 means MaxClockSkew.
	ClockSkew time.Duration
	// Last is the last accepted bundle.
	Last Accepted
	// Assigned is the Kyma in the bootstrap Secret, or zero if no bootstrap Secret exists.
	Assigned Assigned
	// Installed contains the installed versions by module. CheckVersions refuses downgrades unless the statement lists
	// the rollback. Nil disables this check.
	Installed map[string]string
}

// lastInEpoch returns the last accepted bundle. If the root of trust has a newer epoch, lastInEpoch omits the bundle's
// position and Kyma. An operator starts a new epoch after a thief signed bundles with a publisher key. Such a bundle
// can contain a high sequence or name another Kyma as the owner.
func (t Trust) lastInEpoch() Accepted {
	last := t.Last
	if last.Epoch < t.Root.Epoch {
		last.Sequence, last.Digest, last.Statement, last.Kyma = 0, "", "", trust.Kyma{}
	}
	return last
}

// Accepted is the last accepted bundle. The zero value means that no bundle was accepted.
type Accepted struct {
	Epoch    int64         `json:"epoch"`
	Sequence int64         `json:"sequence"`
	Digest   digest.Digest `json:"digest"`
	// Statement is the digest of the signed statement. A signature can be encoded in several ways, so two manifests
	// with different digests can contain the same statement. Verify treats them as the same bundle.
	Statement digest.Digest `json:"statement,omitempty"`
	// NewestTime is the latest time in a verified statement. If the runtime's clock is behind NewestTime, Verify uses
	// NewestTime as the current time.
	NewestTime time.Time `json:"newestTime"`
	// Kyma is the Kyma that the runtime belongs to, or zero if unknown. TokenExpires is the expiry, in Unix seconds, of
	// the newest enrollment token that assigned the runtime to a Kyma.
	Kyma         trust.Kyma `json:"kyma,omitzero"`
	TokenExpires int64      `json:"tokenExpires,omitempty"`
}

// Assigned is the Kyma in the runtime's bootstrap Secret.
type Assigned struct {
	Kyma trust.Kyma
	// TokenExpires is the expiry of the token in the same Secret, in Unix seconds.
	TokenExpires int64
}
