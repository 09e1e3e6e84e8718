package bundle

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

var testSecret = trust.TokenSecret(strings.Repeat("s", 32))

func sampleReport() Report {
	return Report{
		Runtime: trusttest.Runtime, Sequence: 50, Time: trusttest.Now, AgentVersion: "v1.0.0", ClusterUID: testCluster,
		Observed: &Observed{Epoch: 1, Sequence: 100, Digest: EmptyBlob().Descriptor.Digest},
		Modules: []ReportedModule{
			{
				Name: "keda", Version: "1.8.0", State: v1beta2.StateReady, Maintenance: true,
				Reason: reason.WindowAwaited, Message: "waits",
			},
		},
	}
}

func response(tb testing.TB, report Report, signer trust.Signer) Fetched {
	tb.Helper()
	manifest, err := ComposeReport(report, signer)
	if err != nil {
		tb.Fatal(err)
	}
	return Fetched(manifest)
}

func issue(tb testing.TB, secret trust.TokenSecret, runtime string, expires time.Time) trust.Token {
	tb.Helper()
	token, err := secret.Issue(runtime, expires)
	if err != nil {
		tb.Fatal(err)
	}
	return token
}

func introduction(tb testing.TB, token trust.Token, runtime string, signer trust.Signer) *trust.Enrollment {
	tb.Helper()
	public, err := trust.EncodePublicKey(trusttest.PublicKey(tb, signer))
	if err != nil {
		tb.Fatal(err)
	}
	proof, err := token.Prove(runtime, trusttest.PublicKey(tb, signer))
	if err != nil {
		tb.Fatal(err)
	}
	return &trust.Enrollment{PublicKey: public, Proof: proof, TokenExpires: token.Expires.Unix()}
}

func tokenChecker(e trust.Enrollment) error {
	return trust.TokenSecrets{testSecret}.Check(trust.Kyma{Name: trusttest.Runtime}, trusttest.Runtime, e,
		trusttest.Now)
}

func TestVerifyReportAcceptsOnlyValidReports(t *testing.T) {
	mine, foreign := trusttest.NewSigner(t), trusttest.NewSigner(t)
	known := Reporter{
		Runtime: trusttest.Runtime, Key: trusttest.PublicKey(t, mine), LastSequence: 49, Enroll: tokenChecker,
	}
	unknown := Reporter{Runtime: trusttest.Runtime, Enroll: tokenChecker}
	good := issue(t, testSecret, trusttest.Runtime, trusttest.Now.Add(time.Hour))
	with := func(change func(*Report)) Report {
		report := sampleReport()
		change(&report)
		return report
	}
	enrolling := func(token trust.Token, runtime string, key trust.Signer) Report {
		return with(func(r *Report) { r.Enrollment = introduction(t, token, runtime, key) })
	}
	for _, c := range []struct {
		name     string
		report   Report
		signer   trust.Signer
		from     Reporter
		want     refusal.Reason
		enrolled bool
	}{
		{"the runtime's own report is accepted", sampleReport(), mine, known, "", false},
		{
			"the last accepted report is accepted again", with(func(r *Report) { r.Sequence = 49 }), mine, known, "",
			false,
		},
		{
			"a replayed older report is refused", with(func(r *Report) { r.Sequence = 48 }), mine, known,
			refusal.Rollback, false,
		},
		{
			"a report without a sequence is refused", with(func(r *Report) { r.Sequence = 0 }), mine,
			Reporter{Runtime: trusttest.Runtime, Key: known.Key, Enroll: tokenChecker}, refusal.Rollback, false,
		},
		{
			"another runtime's report with the same key is refused", with(func(r *Report) { r.Runtime = "r-18" }), mine,
			known, refusal.WrongRuntime, false,
		},
		{"a report signed with another key is refused", sampleReport(), foreign, known, refusal.ForeignKey, false},
		{"a report signed with an unknown key is refused", sampleReport(), mine, unknown, refusal.NotEnrolled, false},
		{"a key with a token is enrolled", enrolling(good, trusttest.Runtime, mine), mine, unknown, "", true},
		{
			"a new key with a token replaces the old one", enrolling(good, trusttest.Runtime, foreign), foreign, known,
			"", true,
		},
		{
			"a new key is foreign if enrollments are not accepted",
			enrolling(good, trusttest.Runtime, foreign), foreign,
			Reporter{Runtime: trusttest.Runtime, Key: known.Key}, refusal.ForeignKey, false,
		},
		{
			"an enrollment of the enrolled key has no effect", enrolling(good, trusttest.Runtime, mine), mine, known,
			"", false,
		},
		{
			"a token derived from another secret is refused",
			enrolling(issue(t, trust.TokenSecret(strings.Repeat("x", 32)), trusttest.Runtime,
				trusttest.Now.Add(time.Hour)), trusttest.Runtime, mine), mine, unknown, refusal.NotEnrolled, false,
		},
		{
			"another runtime's token is refused",
			enrolling(issue(t, testSecret, "r-18", trusttest.Now.Add(time.Hour)), trusttest.Runtime, mine), mine,
			unknown, refusal.NotEnrolled, false,
		},
		{
			"an expired token is refused",
			enrolling(issue(t, testSecret, trusttest.Runtime, trusttest.Now), trusttest.Runtime, mine), mine, unknown,
			refusal.NotEnrolled, false,
		},
		{"an expired token with a changed expiry is refused", with(func(r *Report) {
			r.Enrollment = introduction(t, issue(t, testSecret, trusttest.Runtime, trusttest.Now.Add(-time.Hour)),
				trusttest.Runtime, mine)
			r.Enrollment.TokenExpires = trusttest.Now.Add(time.Hour).Unix()
		}), mine, unknown, refusal.NotEnrolled, false},
		{"a copied proof does not enroll another key", with(func(r *Report) {
			r.Enrollment = introduction(t, good, trusttest.Runtime, mine)
			r.Enrollment.PublicKey = introduction(t, good, trusttest.Runtime, foreign).PublicKey
		}), foreign, unknown, refusal.NotEnrolled, false},
		{
			"a copied enrollment does not cover a report signed with another key",
			enrolling(good, trusttest.Runtime, mine), foreign,
			unknown, refusal.ForeignKey, false,
		},
		{"an enrollment with a damaged key is refused", with(func(r *Report) {
			r.Enrollment = introduction(t, good, trusttest.Runtime, mine)
			r.Enrollment.PublicKey = "AAAA"
		}), mine, unknown, refusal.Malformed, false},
		{"a token that the control plane refuses is refused", enrolling(good, trusttest.Runtime, mine), mine,
			Reporter{Runtime: trusttest.Runtime,
				Enroll: func(trust.Enrollment) error { return errors.New("used before") }}, refusal.NotEnrolled, false},
		{"an enrollment for another runtime is refused", with(func(r *Report) {
			r.Runtime, r.Enrollment = "r-18", introduction(t, good, trusttest.Runtime, mine)
		}), mine, unknown, refusal.WrongRuntime, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			accepted, err := VerifyReport(response(t, c.report, c.signer), c.from)
			trusttest.WantReason(t, err, c.want)
			if err != nil {
				return
			}
			if accepted.Enrolled != c.enrolled {
				t.Errorf("got enrolled %t, want %t", accepted.Enrolled, c.enrolled)
			}
			c.report.Features = AllFeatures()
			if !c.enrolled {
				c.report.Enrollment = nil // the enrollment's token was not verified
			}
			if !reflect.DeepEqual(accepted.Report, c.report) ||
				!reflect.DeepEqual(accepted.Key, trusttest.PublicKey(t, c.signer)) {
				t.Errorf("got %+v, want %+v", accepted.Report, c.report)
			}
		})
	}
}

func statementOf(tb testing.TB, report Report) string {
	tb.Helper()
	return encode(tb, reportStatement{
		Type: StatementType, Subject: []Subject{newSubject("none", EmptyBlob().Descriptor.Digest)},
		PredicateType: PredicateReport, Predicate: report,
	})
}

func carried(tb testing.TB, text string) Fetched {
	tb.Helper()
	manifest, err := NewManifest(ocispec.Manifest{
		ArtifactType: ArtifactTypeReport, Config: ocispec.DescriptorEmptyJSON,
		Layers:      []ocispec.Descriptor{ocispec.DescriptorEmptyJSON},
		Annotations: map[string]string{AnnotationReport: text},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return Fetched(manifest)
}

func TestVerifyReportRefusesOtherManifests(t *testing.T) {
	signer := trusttest.NewSigner(t)
	known := Reporter{Runtime: trusttest.Runtime, Key: trusttest.PublicKey(t, signer), Enroll: tokenChecker}
	bundled, err := Compose(sampleDocuments(t), samplePredicate(), signer)
	if err != nil {
		t.Fatal(err)
	}
	honest := response(t, sampleReport(), signer)
	payload := statementOf(t, sampleReport())
	changed := signed(t, signer, payload)
	changed.Envelope.Payload = []byte(strings.Replace(payload, `"Ready"`, `"Error"`, 1))
	for _, c := range []struct {
		name    string
		fetched Fetched
		want    refusal.Reason
	}{
		{"a bundle is refused", Fetched(bundled), refusal.MediaType},
		{"a bundle's statement in a report's manifest is refused",
			carried(t, encode(t, signed(t, signer, encode(t, Statement{
				Type: StatementType, PredicateType: PredicateDesiredState, Predicate: samplePredicate(),
			})))), refusal.PredicateType},
		{"a report without a signature is refused", carried(t, ""), refusal.Unsigned},
		{"a report that was changed after signing is refused", carried(t, encode(t, changed)), refusal.BadSignature},
		{
			"an index is refused",
			Fetched{Descriptor: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageIndex}, Bytes: honest.Bytes},
			refusal.MediaType,
		},
		{
			"a report larger than the limit is refused", carried(t, strings.Repeat(" ", MaxReportBytes+1)),
			refusal.TooLarge,
		},
		{
			"a manifest larger than the limit is refused",
			Fetched{Descriptor: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest},
				Bytes: make([]byte, MaxManifestBytes+1)}, refusal.TooLarge,
		},
		{
			"an empty response is refused",
			Fetched{Descriptor: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest}}, refusal.Malformed,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := VerifyReport(c.fetched, known)
			trusttest.WantReason(t, err, c.want)
		})
	}
	for _, d := range differentials(t, "_type") {
		if d.later {
			continue
		}
		for which, from := range map[string]Reporter{"known key": known,
			"unknown key": {Runtime: trusttest.Runtime, Enroll: tokenChecker}} {
			t.Run("ambiguous statement of a report, "+which+": "+d.name, func(t *testing.T) {
				token := issue(t, testSecret, trusttest.Runtime, trusttest.Now.Add(time.Hour))
				report := sampleReport()
				report.Enrollment = introduction(t, token, trusttest.Runtime, signer)
				_, err := VerifyReport(carried(t, encode(t, signed(t, signer, d.change(statementOf(t, report))))), from)
				if err == nil {
					t.Fatal("got no error, want an error")
				}
				if from.Key != nil {
					trusttest.WantReason(t, err, refusal.Malformed)
				}
			})
		}
	}
	t.Run("an enrollment key with different capitalization cannot replace the checked one", func(t *testing.T) {
		report := sampleReport()
		report.Enrollment = introduction(t, issue(t, testSecret, trusttest.Runtime, trusttest.Now.Add(time.Hour)),
			trusttest.Runtime, signer)
		text := strings.Replace(statementOf(t, report), `"enrolment"`, `"Enrolment"`, 1)
		_, err := VerifyReport(carried(t, encode(t, signed(t, signer, text))), Reporter{
			Runtime: trusttest.Runtime, Enroll: tokenChecker,
		})
		trusttest.WantReason(t, err, refusal.Malformed)
	})
}

func TestComposeReportRefusesOversizedReport(t *testing.T) {
	report := sampleReport()
	report.AgentVersion = strings.Repeat("v", MaxReportBytes)
	if _, err := ComposeReport(report, trusttest.NewSigner(t)); err == nil ||
		!strings.Contains(err.Error(), "report of runtime "+trusttest.Runtime) {
		t.Errorf("got error %v, want an error that names the runtime", err)
	}
}

func TestTokenParsingRefusesInvalidTokens(t *testing.T) {
	token := issue(t, testSecret, trusttest.Runtime, trusttest.Now)
	t.Run("a token survives its text form", func(t *testing.T) {
		parsed, err := trust.ParseToken(" " + token.String() + "\n")
		if err != nil || parsed.String() != token.String() || !parsed.Expires.Equal(trusttest.Now) {
			t.Errorf("got token %v, error %v, want an equal token", parsed, err)
		}
	})
	t.Run("a short secret is refused", func(t *testing.T) {
		if _, err := trust.TokenSecret("short").Issue(trusttest.Runtime, trusttest.Now); err == nil {
			t.Error("got no error, want an error")
		}
		if err := (trust.TokenSecrets{trust.TokenSecret("short")}).
			Check(trust.Kyma{}, trusttest.Runtime, trust.Enrollment{}, trusttest.Now); err == nil {
			t.Error("got no error, want an error")
		}
	})
	parts := strings.Split(token.String(), ".")
	for name, text := range map[string]string{
		"an empty token is refused":                   "",
		"a token with another version is refused":     "kpt2." + parts[1] + "." + parts[2],
		"a token with too few parts is refused":       parts[0] + "." + parts[1],
		"a token with too many parts is refused":      token.String() + ".x",
		"a token with an invalid time is refused":     parts[0] + ".soon." + parts[2],
		"a token with a time out of range is refused": parts[0] + ".99999999999999999999." + parts[2],
		"a token with a truncated code is refused":    token.String()[:len(token.String())-2],
		"a token without a base64 code is refused":    parts[0] + "." + parts[1] + "." + strings.Repeat("!", 43),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := trust.ParseToken(text); err == nil || !strings.HasPrefix(err.Error(), "enrollment token: ") {
				t.Errorf("got error %v, want an error about the enrollment token", err)
			}
		})
	}
}

func FuzzVerifyReport(f *testing.F) {
	signer := trusttest.FixedSigner(f)
	honest := response(f, sampleReport(), signer)
	enrolling := sampleReport()
	enrolling.Enrollment = introduction(f, issue(f, testSecret, trusttest.Runtime, trusttest.Now.Add(time.Hour)),
		trusttest.Runtime, signer)
	f.Add(honest.Bytes)
	f.Add(response(f, enrolling, signer).Bytes)
	f.Add(response(f, enrolling, trusttest.NewSigner(f)).Bytes)
	f.Add(carried(f, "").Bytes)
	f.Add([]byte("{}"))
	for _, d := range differentials(f, "_type") {
		f.Add(carried(f, encode(f, signed(f, signer, d.change(statementOf(f, sampleReport()))))).Bytes)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fetched := Fetched{Descriptor: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest}, Bytes: data}
		for _, from := range []Reporter{{Runtime: trusttest.Runtime, Key: trusttest.PublicKey(t, signer),
			Enroll: tokenChecker}, {Runtime: trusttest.Runtime, Enroll: tokenChecker}} {
			accepted, err := VerifyReport(fetched, from)
			switch {
			case err != nil && refusal.Of(err) == nil:
				t.Errorf("got error %v, want a refusal", err)
			case err == nil && !reflect.DeepEqual(accepted.Key, trusttest.PublicKey(t, signer)):
				t.Errorf("got accepted report %+v, want a refusal because the key did not sign it", accepted)
			}
		}
	})
}

func FuzzParseToken(f *testing.F) {
	f.Add(issue(f, testSecret, trusttest.Runtime, trusttest.Now).String())
	f.Add("kpt1.-1." + strings.Repeat("A", 43))
	f.Add("kpt1.+5." + strings.Repeat("_", 43))
	f.Add("kpt1..")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := trust.ParseToken(text)
		if err != nil {
			return
		}
		again, err := trust.ParseToken(token.String())
		if err != nil || again.String() != token.String() {
			t.Errorf("%q changed to %q when parsed and printed again, error %v", token, again, err)
		}
	})
}
