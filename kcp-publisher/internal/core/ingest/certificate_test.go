package ingest

import (
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func TestLastCertificateStaysRecordedUntilAnotherKeyEnrolls(t *testing.T) {
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
		RecordReport(&m.status, report, "key", thumbprint, m.now)
	}
	enrolled("thumbprint")
	m.facts.Published.Predicate.Certificate = text
	m.poll()
	end := noon.Add(time.Hour)
	known := func(when string) {
		t.Helper()
		if life := m.status.Runtime.Published.Certificate; life == nil || !life.NotAfter.Time.Equal(end) {
			t.Errorf("%s: got certificate %v, want one that expires at %s", when, life, end)
		}
	}
	known("valid certificate")
	m.later(2 * time.Hour)
	m.publish("without a certificate", func(*bundle.DesiredState) {})
	known("expired certificate, bundle without a certificate")
	if got := m.status.Runtime.Published.Digest; got != digest.FromString("without a certificate").String() {
		t.Fatalf("got published bundle %s, want the one without a certificate", got)
	}
	m.later(time.Hour)
	m.publish("still without a certificate", func(*bundle.DesiredState) {})
	known("another bundle without a certificate")
	enrolled("thumbprint")
	m.poll()
	known("same key enrolled again")
	enrolled("another thumbprint")
	m.poll()
	if life := m.status.Runtime.Published.Certificate; life != nil {
		t.Errorf("another key enrolled: got the certificate of the previous key: %v", life)
	}
}
