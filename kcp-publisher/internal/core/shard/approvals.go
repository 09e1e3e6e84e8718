package shard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Approvals contains the removals that an operator approved for a Git commit.
type Approvals struct {
	// Commit is the hash of the commit. At is the time of the approval.
	Commit string    `json:"commit"`
	At     time.Time `json:"at"`
	// Kymas contains the UIDs of the Kymas with an approved deletion.
	Kymas map[types.UID]bool `json:"kymas,omitempty"`
	// Modules contains each mandatory module whose removal from all runtimes is approved.
	Modules map[string]bool `json:"modules,omitempty"`
}

// Of returns the time at which a removal was approved, or zero. An empty module means all modules of the deleted Kyma
// with this UID.
func (a Approvals) Of(kyma types.UID, module string) time.Time {
	if module == "" && a.Kymas[kyma] || module != "" && a.Modules[module] {
		return a.At
	}
	return time.Time{}
}

// Encode encodes the approvals as gzip-compressed JSON, and returns the digest of the data. Both are empty if a does
// not contain approvals. Encode returns an error if the data would not fit into a ConfigMap.
func (a Approvals) Encode() (data []byte, digest string, err error) {
	if len(a.Kymas)+len(a.Modules) == 0 {
		return nil, "", nil
	}
	if data, err = pack(a); err != nil {
		return nil, "", err
	}
	if len(data) > maxEncodedBytes {
		return nil, "", fmt.Errorf("%d approved removals are too many for one commit: approve the removals for each Kyma",
			len(a.Kymas)+len(a.Modules))
	}
	return data, digestOf(data), nil
}

// CheckApprovals returns an error if the encoded approvals in data do not match the digest in the planner's
// announcement.
func CheckApprovals(data []byte, digest string) error {
	if digestOf(data) != digest {
		return errors.New("the approved removals do not match the announcement")
	}
	return nil
}

// DecodeApprovals parses the result of Encode. For empty data, it returns an empty Approvals.
func DecodeApprovals(data []byte) (a Approvals, err error) {
	if len(data) == 0 {
		return Approvals{}, nil
	}
	if err = unpack(data, &a); err != nil {
		return Approvals{}, fmt.Errorf("decode approved removals: %w", err)
	}
	return a, nil
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// pack encodes a value as gzip-compressed JSON.
func pack(value any) ([]byte, error) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if err := json.NewEncoder(writer).Encode(value); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// unpack parses the result of pack and limits the size of the input and output.
func unpack(data []byte, into any) error {
	if len(data) > maxEncodedBytes {
		return fmt.Errorf("%d bytes, must be at most %d", len(data), maxEncodedBytes)
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(reader, maxDecodedBytes+1))
	if err != nil {
		return err
	}
	if len(text) > maxDecodedBytes {
		return fmt.Errorf("uncompressed size exceeds %d bytes", maxDecodedBytes)
	}
	return json.Unmarshal(text, into)
}
