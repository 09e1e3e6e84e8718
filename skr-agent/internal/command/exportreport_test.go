package command

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func TestExportReportRefusesReportFromAnotherRuntime(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "fleet")
	signer := trusttest.NewSigner(t)
	manifest, err := bundle.ComposeReport(
		bundle.Report{
			Runtime:      "berlin",
			Sequence:     7,
			Time:         time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC),
			AgentVersion: "v1.0.0",
		},
		signer,
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, repository := range []string{"berlin", "tokyo"} { // the repository tokyo contains a report from berlin
		if err := store.PushReport(t.Context(), store.NewLayout(folder), repository, manifest); err != nil {
			t.Fatal(err)
		}
	}
	for runtime, want := range map[string]int{"berlin": cli.ExitDone, "tokyo": cli.ExitRefused,
		"rome": cli.ExitFailed} {
		t.Run(runtime, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "report.json")
			code, output := execute("export-report", "--location", store.LayoutScheme+folder, "--runtime", runtime,
				"-o", file)
			if code != want {
				t.Fatalf("got exit code %d, want %d: %s", code, want, output)
			}
			data, err := os.ReadFile(file)
			if want != cli.ExitDone {
				if !os.IsNotExist(err) {
					t.Errorf("got error %v from reading the file, want no file", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			fetched, err := bundle.ReadReportFile(data)
			if err != nil {
				t.Fatal(err)
			}
			report, err := bundle.VerifyReport(fetched, bundle.Reporter{
				Runtime: runtime, Key: trusttest.PublicKey(t, signer),
			})
			if err != nil || report.Sequence != 7 {
				t.Errorf("got report %+v with error %v, want sequence 7", report.Report, err)
			}
		})
	}
}
