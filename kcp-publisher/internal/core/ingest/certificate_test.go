package ingest

import (
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

// TestExpiryOfTheLastCertificateStaysRecorded covers bundles without a certificate: it has expired, or the enrollment
// key is missing.
func TestExpiryOfTheLastCertificateStaysRecorded(t *testing.T) {
	m := member(t)
	enroll := trusttest.NewSigner(t)
	text, err := trust.IssueCertificate(enroll, "", "one", trust.Kyma{}, trusttest.PublicKey(t, enroll), noon,
		noon.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	enrolled := func(thumbprint string) {
		report := *m.facts.Report
		report.Sequence++
		report.Enrolled = true
		m.facts.Report = &report
		Remember(&m.status, report, "key", thumbprint, m.now)
	}
	enrolled("thumbprint")
	m.facts.Published.Predicate.Certificate = text
	m.poll()
	end := noon.Add(time.Hour)
	known := func(when string) {
		t.Helper()
		if life := m.status.Runtime.Published.Certificate; life == nil || !life.NotAfter.Time.Equal(end) {
			t.Errorf("%s: got %v, want the end %s", when, life, end)
		}
	}
	known("while it holds")
	m.later(2 * time.Hour)
	m.publish("without a certificate", func(*bundle.DesiredState) {})
	known("a bundle without one, past its end")
	if got := m.status.Runtime.Published.Digest; got != digest.FromString("without a certificate").String() {
		t.Fatalf("bundle %s is published", got)
	}
	m.later(time.Hour)
	m.publish("another one", func(*bundle.DesiredState) {})
	known("the bundle after that")
	enrolled("thumbprint")
	m.poll()
	known("the same key enrolls again")
	enrolled("another thumbprint")
	m.poll()
	if life := m.status.Runtime.Published.Certificate; life != nil {
		t.Errorf("another key has the certificate of the one before: %v", life)
	}
}
