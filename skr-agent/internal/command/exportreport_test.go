package command

import (
	"bytes"
	"image"
	"image/color"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"
	"github.com/mdp/qrterminal/v3"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

func reportWith(t *testing.T, signer trust.Signer, randomLetters int) bundle.Fetched {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	message := make([]byte, randomLetters)
	for i := range message {
		message[i] = byte('a' + random.IntN(26))
	}
	manifest, err := bundle.ComposeReport(bundle.Report{
		Runtime: "berlin", Sequence: 7, Time: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC), AgentVersion: "v1.0.0",
		Modules: []bundle.ReportedModule{{Name: "keda", Version: "1.0.0", State: v1beta2.StateReady, Message: string(message)}},
	}, signer)
	if err != nil {
		t.Fatal(err)
	}
	return bundle.Fetched(manifest)
}

func newSigner(t *testing.T) trust.Signer {
	t.Helper()
	key, err := trust.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := trust.LoadSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// photo is what a steady camera sees of half blocks on a dark terminal.
func photo(text string) image.Image {
	const pixels = 4
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	width := len([]rune(lines[0]))
	seen := image.NewGray(image.Rect(0, 0, width*pixels, (2*len(lines)-1)*pixels)) // the last half line is the terminal
	for y, line := range lines {
		for x, char := range []rune(line) {
			for half, white := range []bool{
				char == []rune(qrterminal.WHITE_WHITE)[0] || char == []rune(qrterminal.WHITE_BLACK)[0],
				char == []rune(qrterminal.WHITE_WHITE)[0] || char == []rune(qrterminal.BLACK_WHITE)[0],
			} {
				for i := range pixels * pixels {
					if white {
						seen.SetGray(x*pixels+i%pixels, (2*y+half)*pixels+i/pixels, color.Gray{Y: 255})
					}
				}
			}
		}
	}
	return seen
}

func TestACameraReadsAReportFromTheTerminal(t *testing.T) {
	signer := newSigner(t)
	public, err := signer.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, letters := range map[string]int{"a small report": 0, "one with a certificate": 1200, "one that just fits": 3000} {
		t.Run(name, func(t *testing.T) {
			report := reportWith(t, signer, letters)
			var terminal bytes.Buffer
			if err := printCode(&terminal, report); err != nil {
				t.Fatal(err)
			}
			picture, err := gozxing.NewBinaryBitmapFromImage(photo(terminal.String()))
			if err != nil {
				t.Fatal(err)
			}
			read, err := qrcode.NewQRCodeReader().Decode(picture, map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_PURE_BARCODE: true})
			if err != nil {
				t.Fatal(err)
			}
			carried, err := bundle.ReadReportFile([]byte(read.GetText()))
			if err != nil {
				t.Fatal(err)
			}
			accepted, err := bundle.VerifyReport(carried, bundle.Reporter{Runtime: "berlin", Key: public})
			if err != nil || accepted.Sequence != 7 {
				t.Errorf("got %+v, %v", accepted.Report, err)
			}
			t.Logf("%d letters, %d lines on the terminal", len(read.GetText()), strings.Count(terminal.String(), "\n"))
		})
	}
}

func TestAReportThatFitsIntoNoCodeIsCarriedAsAFile(t *testing.T) {
	var terminal bytes.Buffer
	err := printCode(&terminal, reportWith(t, newSigner(t), 6000))
	if err == nil || !strings.Contains(err.Error(), "carry it as a file") || terminal.Len() > 0 {
		t.Errorf("got %v and %d bytes", err, terminal.Len())
	}
}
