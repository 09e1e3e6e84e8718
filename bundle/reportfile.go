package bundle

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// MaxReportTextBytes is the longest text of a report that fits into one QR code: version 40, alphanumeric, lowest correction.
//
// Source: ISO/IEC 18004:2015, table 7.
const MaxReportTextBytes = 4296

// reportTextPrefix starts the short form of a report; its last digit is its version.
const reportTextPrefix = "KPR1:"

// ReportText returns a report in its short form: the same signed statement, compressed, in the alphabet of QR codes.
func ReportText(report Fetched) (string, error) {
	manifest, refused := ReadManifest(report, ArtifactTypeReport)
	if refused != nil {
		return "", refused
	}
	signed, refused := readAttestation([]byte(manifest.Annotations[AnnotationReport]))
	if refused != nil {
		return "", refused
	}
	hint, err := base64.StdEncoding.DecodeString(signed.VerificationMaterial.PublicKey.Hint)
	sig := signed.Envelope.Signatures[0].Sig
	if err != nil || len(hint) != thumbprintBytes || len(sig) > 255 {
		return "", refusal.New(refusal.Malformed, "report: its key or signature has an unusual length")
	}
	var packed bytes.Buffer
	writer, err := flate.NewWriter(&packed, flate.BestCompression)
	if err != nil {
		return "", err
	}
	for _, part := range [][]byte{hint, {byte(len(sig))}, sig, signed.Envelope.Payload} {
		if _, err := writer.Write(part); err != nil {
			return "", err
		}
	}
	if err := writer.Close(); err != nil {
		return "", err
	}
	return reportTextPrefix + encode45(packed.Bytes()), nil
}

const thumbprintBytes = 32

// ReadReportFile reads a report that was carried, as its manifest or in its short form, without judging it. The error is a *Refusal.
func ReadReportFile(data []byte) (Fetched, error) {
	if len(data) > MaxManifestBytes {
		return Fetched{}, refusal.New(refusal.TooLarge, "report of %d bytes, at most %d", len(data), MaxManifestBytes)
	}
	text, short := strings.CutPrefix(strings.TrimSpace(string(data)), reportTextPrefix)
	if !short {
		return Fetched{Descriptor: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest}, Bytes: data}, nil
	}
	packed, err := decode45(text)
	if err != nil {
		return Fetched{}, refusal.New(refusal.Malformed, "report: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), MaxAttestationBytes+1))
	if err != nil || len(plain) > MaxAttestationBytes || len(plain) <= thumbprintBytes {
		return Fetched{}, refusal.New(refusal.Malformed, "report: the text is damaged or too long")
	}
	hint, rest := plain[:thumbprintBytes], plain[thumbprintBytes:]
	n := int(rest[0])
	if len(rest) <= n {
		return Fetched{}, refusal.New(refusal.Malformed, "report: the text is damaged")
	}
	signed, err := json.Marshal(attestation{
		MediaType:            MediaTypeSigstoreBundle,
		VerificationMaterial: verificationMaterial{PublicKey: publicKeyHint{Hint: base64.StdEncoding.EncodeToString(hint)}},
		Envelope:             envelope{Payload: rest[1+n:], PayloadType: payloadTypeInToto, Signatures: []envelopeSign{{Sig: rest[1 : 1+n]}}},
	})
	if err != nil {
		return Fetched{}, err
	}
	manifest, err := reportManifest(signed)
	return Fetched(manifest), err
}

// ClaimedReport reads what a report says without knowing whether its runtime says so: enough to find out whom it is about, and never
// to believe it. The error is a *Refusal.
func ClaimedReport(fetched Fetched) (Report, error) {
	manifest, refused := ReadManifest(fetched, ArtifactTypeReport)
	if refused != nil {
		return Report{}, refused
	}
	signed, refused := readAttestation([]byte(manifest.Annotations[AnnotationReport]))
	if refused != nil {
		return Report{}, refused
	}
	var statement reportStatement
	if refusal := decodeStatement(signed.Envelope.Payload, PredicateReport, &statement); refusal != nil {
		return Report{}, refusal
	}
	if err := trust.CheckRuntimeID(statement.Predicate.Runtime); err != nil {
		return Report{}, refusal.New(refusal.Malformed, "report: %w", err)
	}
	return statement.Predicate, nil
}

// alphabet45 is that of QR codes' alphanumeric mode.
const alphabet45 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ $%*+-./:"

// encode45 writes two bytes as three letters, and a last one as two.
//
// Source: RFC 9285.
func encode45(data []byte) string {
	var text strings.Builder
	for len(data) > 0 {
		n, letters := int(data[0]), 2
		if len(data) > 1 {
			n, letters = n<<8|int(data[1]), 3
		}
		for range letters {
			text.WriteByte(alphabet45[n%45])
			n /= 45
		}
		data = data[letters-1:]
	}
	return text.String()
}

func decode45(text string) ([]byte, error) {
	data := make([]byte, 0, len(text)*2/3)
	for len(text) > 0 {
		letters := min(3, len(text))
		n, weight := 0, 1
		for _, letter := range []byte(text[:letters]) {
			value := strings.IndexByte(alphabet45, letter)
			if value < 0 {
				return nil, fmt.Errorf("%q is no letter of base 45", letter)
			}
			n, weight = n+value*weight, weight*45
		}
		text = text[letters:]
		switch {
		case letters == 3 && n <= 0xffff:
			data = append(data, byte(n>>8), byte(n))
		case letters == 2 && n <= 0xff:
			data = append(data, byte(n))
		default:
			return nil, fmt.Errorf("%d letters at the end are no base 45", letters)
		}
	}
	return data, nil
}
