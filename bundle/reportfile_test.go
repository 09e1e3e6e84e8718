package bundle

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

// fullReport is that of a runtime with this many modules that are ready, and a certificate as long as one is.
func fullReport(modules int) Report {
	report := sampleReport()
	report.Modules = nil
	random := rand.New(rand.NewPCG(1, 2))
	for range 900 {
		report.Certificate += string(rune('A' + random.IntN(26)))
	}
	report.Kyma = &ReportedKyma{Generation: 3, State: v1beta2.StateReady, Spec: v1beta2.KymaSpec{Channel: "regular"}}
	for i := range modules {
		name := fmt.Sprintf("module-%d", i)
		report.Kyma.Spec.Modules = append(report.Kyma.Spec.Modules, v1beta2.Module{Name: name, Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete})
		report.Modules = append(report.Modules, ReportedModule{
			Name: name, Channel: "regular", Version: "1.0.0", State: v1beta2.StateReady,
			Manifest: &v1beta2.TrackingObject{PartialMeta: v1beta2.PartialMeta{Name: name, Namespace: v1beta2.RuntimeNamespace}},
		})
	}
	return report
}

func TestAReportKeepsItsSignatureInItsShortForm(t *testing.T) {
	signer := trusttest.NewSigner(t)
	for _, modules := range []int{0, 1, 20, 100} {
		report := fullReport(modules)
		text, err := ReportText(response(t, report, signer))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d modules: %d letters", modules, len(text))
		if len(text) > MaxReportTextBytes {
			t.Errorf("%d modules are %d letters", modules, len(text))
		}
		if strings.Trim(text, alphabet45) != "" {
			t.Errorf("leaves the alphabet of QR codes: %s", text)
		}
		read, err := ReadReportFile([]byte(text + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := VerifyReport(read, Reporter{Runtime: trusttest.Runtime, Key: trusttest.PublicKey(t, signer)})
		if err != nil || len(accepted.Modules) != modules || accepted.Sequence != report.Sequence {
			t.Errorf("%d modules: got %d, %v", modules, len(accepted.Modules), err)
		}
	}
}

func TestAReportFileIsAManifestToo(t *testing.T) {
	signer := trusttest.NewSigner(t)
	manifest := response(t, sampleReport(), signer)
	read, err := ReadReportFile(manifest.Bytes)
	if err != nil || !bytes.Equal(read.Bytes, manifest.Bytes) || read.Descriptor.MediaType != ocispec.MediaTypeImageManifest {
		t.Errorf("got %+v, %v", read.Descriptor, err)
	}
	claimed, err := ClaimedReport(read)
	if err != nil || claimed.Runtime != trusttest.Runtime || claimed.Sequence != 50 {
		t.Errorf("claims %+v, %v", claimed, err)
	}
}

func TestAShortReportThatIsDamagedIsRefused(t *testing.T) {
	signer := trusttest.NewSigner(t)
	text, err := ReportText(response(t, sampleReport(), signer))
	if err != nil {
		t.Fatal(err)
	}
	bomb, err := ReportText(response(t, func() Report {
		r := sampleReport()
		r.KubernetesVersion = strings.Repeat("v", 40<<10)
		return r
	}(), signer))
	if err != nil || len(bomb) > MaxReportTextBytes {
		t.Fatalf("%d letters, %v", len(bomb), err)
	}
	read, err := ReadReportFile([]byte(bomb))
	if err != nil || len(read.Bytes) > MaxManifestBytes {
		t.Errorf("what compresses well is no reason to refuse: %v", err)
	}
	for name, c := range map[string]struct {
		text   string
		reason refusal.Reason
	}{
		"cut off":               {text[:len(text)/2], refusal.Malformed},
		"only its start":        {reportTextPrefix, refusal.Malformed},
		"another letter":        {text[:100] + "é" + text[101:], refusal.Malformed},
		"a letter at the end":   {text[:len(text)-len(text[len(reportTextPrefix):])%3] + "A", refusal.Malformed},
		"longer than any":       {strings.Repeat("A", MaxManifestBytes+1), refusal.TooLarge},
		"letters that say more": {reportTextPrefix + ":::", refusal.Malformed},
	} {
		if _, err := ReadReportFile([]byte(c.text)); refusal.Of(err) == nil || refusal.Of(err).Reason != c.reason {
			t.Errorf("%s: got %v, want %s", name, err, c.reason)
		}
	}
	// A letter that is exchanged gives other bytes: they do not unpack, or the signature does not fit.
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		at := len(reportTextPrefix) + random.IntN(len(text)-len(reportTextPrefix))
		other := alphabet45[random.IntN(45)]
		if other == text[at] {
			continue
		}
		read, err := ReadReportFile([]byte(text[:at] + string(other) + text[at+1:]))
		if err == nil {
			_, err = VerifyReport(read, Reporter{Runtime: trusttest.Runtime, Key: trusttest.PublicKey(t, signer)})
		}
		if refusal.Of(err) == nil {
			t.Fatalf("letter %d as %q: got %v", at, other, err)
		}
	}
}

// TestBase45IsThatOfItsSpecification has the examples of RFC 9285, section 4.3 and 4.4.
func TestBase45IsThatOfItsSpecification(t *testing.T) {
	for plain, text := range map[string]string{"AB": "BB8", "Hello!!": "%69 VD92EX0", "base-45": "UJCLQE7W581", "ietf!": "QED8WEX0", "": ""} {
		if got := encode45([]byte(plain)); got != text {
			t.Errorf("%q is %q, want %q", plain, got, text)
		}
		if got, err := decode45(text); err != nil || string(got) != plain {
			t.Errorf("%q says %q, %v, want %q", text, got, err, plain)
		}
	}
	for _, text := range []string{"GGW", "A", "AAAA", "::", "a"} {
		if got, err := decode45(text); err == nil {
			t.Errorf("%q says %q", text, got)
		}
	}
}
