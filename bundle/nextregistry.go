package bundle

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/distribution/reference"
)

// NextRegistry announces the location and the CA certificates for the fleet's registry before they change. Agents use
// them in addition to the current location and CA certificates.
type NextRegistry struct {
	// Location is HOST[:PORT]/PATH, or empty if the location does not change. Agents look for bundles in both
	// locations.
	Location string `json:"location,omitempty"`
	// CA is a PEM bundle with CA certificates for registries, or empty if the CA does not change.
	CA string `json:"ca,omitempty"`
}

// Limits for NextRegistry.
const (
	maxLocationBytes = 512
	// MaxCABytes limits the size of the PEM text, and maxCACertificates the number of certificates in it.
	MaxCABytes        = 64 << 10
	maxCACertificates = 32
)

func (n *NextRegistry) check() error {
	if n == nil {
		return nil
	}
	if n.Location == "" && n.CA == "" {
		return errors.New("next registry: a location or a CA is required")
	}
	if n.Location != "" {
		name, err := reference.ParseNamed(n.Location + "/" + ContentRepository)
		host, _, _ := strings.Cut(n.Location, "/")
		if err != nil || !reference.IsNameOnly(name) || len(n.Location) > maxLocationBytes ||
			!strings.ContainsAny(host, ".:") && host != "localhost" {
			return fmt.Errorf(
				"next registry: location %.300q: must be HOST.DOMAIN/PATH or HOST:PORT/PATH without a scheme",
				n.Location)
		}
	}
	if n.CA == "" {
		return nil
	}
	if err := checkCA(n.CA); err != nil {
		return fmt.Errorf("next registry: CA: %w", err)
	}
	return nil
}

func checkCA(text string) error {
	if len(text) > MaxCABytes {
		return fmt.Errorf("the certificates are %d bytes, must be at most %d", len(text), MaxCABytes)
	}
	rest, count := []byte(text), 0
	for len(strings.TrimSpace(string(rest))) > 0 {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return errors.New("must be certificates in PEM without other text")
		}
		if count++; count > maxCACertificates {
			return fmt.Errorf("more than %d certificates", maxCACertificates)
		}
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("PEM block %d has type %q, must be CERTIFICATE", count, Bounded(block.Type, MaxNoteBytes))
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("certificate %d: %w", count, err)
		}
	}
	return nil
}
