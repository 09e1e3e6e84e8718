package bundle

import (
	"bytes"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func TestReportFileContainsTheManifest(t *testing.T) {
	signer := trusttest.NewSigner(t)
	manifest := response(t, sampleReport(), signer)
	read, err := ReadReportFile(manifest.Bytes)
	if err != nil || !bytes.Equal(read.Bytes, manifest.Bytes) ||
		read.Descriptor.MediaType != ocispec.MediaTypeImageManifest {
		t.Errorf("got descriptor %+v, error %v, want the manifest", read.Descriptor, err)
	}
	claimed, err := ClaimedReport(read)
	if err != nil || claimed.Runtime != trusttest.Runtime || claimed.Sequence != 50 {
		t.Errorf("got claimed report %+v, error %v, want the composed report", claimed, err)
	}
}

func TestOversizedReportFileIsRefused(t *testing.T) {
	if _, err := ReadReportFile(make([]byte, MaxManifestBytes)); err != nil {
		t.Errorf("file with exactly the maximum size: got error %v, want no error", err)
	}
	_, err := ReadReportFile(make([]byte, MaxManifestBytes+1))
	trusttest.WantReason(t, err, refusal.TooLarge)
}
