package bundle

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

var testSecret = TokenSecret(strings.Repeat("s", minTokenSecret))

func sampleReport() Report {
	return Report{
		Runtime: testRuntime, Sequence: 50, Time: testNow, AgentVersion: "v1.0.0", ClusterUID: testCluster,
		Observed: &Observed{Epoch: 1, Sequence: 100, Digest: EmptyBlob().Descriptor.Digest},
		Modules:  []ReportedModule{{Name: "keda", Version: "1.8.0", State: v1beta2.StateReady, Maintenance: true, Message: "waits"}},
	}
}

// response is a report as it comes out of a registry.
func response(tb testing.TB, report Report, signer Signer) Fetched {
	tb.Helper()
	manifest, err := ComposeReport(report, signer)
	if err != nil {
		tb.Fatal(err)
	}
	return Fetched(manifest)
}

func issue(tb testing.TB, secret TokenSecret, runtime string, expires time.Time) Token {
	tb.Helper()
	token, err := secret.Issue(runtime, expires)
	if err != nil {
		tb.Fatal(err)
	}
	return token
}

// introduction is an enrolment of the key with a token.
func introduction(tb testing.TB, token Token, runtime string, signer Signer) *Enrolment {
	tb.Helper()
	public, err := EncodePublicKey(publicKey(tb, signer))
	if err != nil {
		tb.Fatal(err)
	}
	proof, err := token.Prove(runtime, publicKey(tb, signer))
	if err != nil {
		tb.Fatal(err)
	}
	return &Enrolment{PublicKey: public, Proof: proof, TokenExpires: token.Expires.Unix()}
}

// tokenChecker asks the secret, as a control plane does that takes every good token.
func tokenChecker(e Enrolment) error { return testSecret.Check(testRuntime, e, testNow) }

func TestVerifyReportDecides(t *testing.T) {
	mine, foreign := newSigner(t), newSigner(t)
	known := Reporter{Runtime: testRuntime, Key: publicKey(t, mine), LastSequence: 49, Enrol: tokenChecker}
	unknown := Reporter{Runtime: testRuntime, Enrol: tokenChecker}
	good := issue(t, testSecret, testRuntime, testNow.Add(time.Hour))
	with := func(change func(*Report)) Report {
		report := sampleReport()
		change(&report)
		return report
	}
	enrolling := func(token Token, runtime string, key Signer) Report {
		return with(func(r *Report) { r.Enrolment = introduction(t, token, runtime, key) })
	}
	for _, c := range []struct {
		name     string
		report   Report
		signer   Signer
		from     Reporter
		want     Reason
		enrolled bool
	}{
		{"the runtime's own report is believed", sampleReport(), mine, known, "", false},
		{"the report accepted last is accepted once more", with(func(r *Report) { r.Sequence = 49 }), mine, known, "", false},
		{"an older report played again is refused", with(func(r *Report) { r.Sequence = 48 }), mine, known, ReasonRollback, false},
		{"a report without a sequence is refused", with(func(r *Report) { r.Sequence = 0 }), mine, Reporter{Runtime: testRuntime, Key: known.Key, Enrol: tokenChecker}, ReasonRollback, false},
		{"another runtime's report is refused though its key is the same", with(func(r *Report) { r.Runtime = "r-18" }), mine, known, ReasonWrongRuntime, false},
		{"another key's report is refused", sampleReport(), foreign, known, ReasonForeignKey, false},
		{"a report of an unknown key is refused", sampleReport(), mine, unknown, ReasonNotEnrolled, false},
		{"a key with a token is enrolled", enrolling(good, testRuntime, mine), mine, unknown, "", true},
		{"a new key with a token takes the old one's place", enrolling(good, testRuntime, foreign), foreign, known, "", true},
		{"an enrolment that goes on after the key is known changes nothing", enrolling(good, testRuntime, mine), mine, known, "", false},
		{"a token of another secret is refused", enrolling(issue(t, TokenSecret(strings.Repeat("x", minTokenSecret)), testRuntime, testNow.Add(time.Hour)), testRuntime, mine), mine, unknown, ReasonNotEnrolled, false},
		{"another runtime's token is refused", enrolling(issue(t, testSecret, "r-18", testNow.Add(time.Hour)), testRuntime, mine), mine, unknown, ReasonNotEnrolled, false},
		{"an expired token is refused", enrolling(issue(t, testSecret, testRuntime, testNow), testRuntime, mine), mine, unknown, ReasonNotEnrolled, false},
		{"an expired token that says it is not is refused", with(func(r *Report) {
			r.Enrolment = introduction(t, issue(t, testSecret, testRuntime, testNow.Add(-time.Hour)), testRuntime, mine)
			r.Enrolment.TokenExpires = testNow.Add(time.Hour).Unix()
		}), mine, unknown, ReasonNotEnrolled, false},
		{"a proof copied from another's report does not carry another key", with(func(r *Report) {
			r.Enrolment = introduction(t, good, testRuntime, mine)
			r.Enrolment.PublicKey = introduction(t, good, testRuntime, foreign).PublicKey
		}), foreign, unknown, ReasonNotEnrolled, false},
		{"an enrolment copied from another's report does not carry another signature", enrolling(good, testRuntime, mine), foreign, unknown, ReasonForeignKey, false},
		{"an enrolment with a damaged key is refused", with(func(r *Report) {
			r.Enrolment = introduction(t, good, testRuntime, mine)
			r.Enrolment.PublicKey = "AAAA"
		}), mine, unknown, ReasonMalformed, false},
		{"a token used before is refused when the control plane says so", enrolling(good, testRuntime, mine), mine,
			Reporter{Runtime: testRuntime, Enrol: func(Enrolment) error { return errors.New("used before") }}, ReasonNotEnrolled, false},
		{"an enrolment for another runtime's place is refused", with(func(r *Report) {
			r.Runtime, r.Enrolment = "r-18", introduction(t, good, testRuntime, mine)
		}), mine, unknown, ReasonWrongRuntime, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			accepted, err := VerifyReport(response(t, c.report, c.signer), c.from)
			wantReason(t, err, c.want)
			if err != nil {
				return
			}
			if accepted.Enrolled != c.enrolled {
				t.Errorf("enrolled is %t, want %t", accepted.Enrolled, c.enrolled)
			}
			if !reflect.DeepEqual(accepted.Report, c.report) || !reflect.DeepEqual(accepted.Key, publicKey(t, c.signer)) {
				t.Errorf("got %+v, want %+v", accepted.Report, c.report)
			}
		})
	}
}

// statementOf is the payload that the runtime would sign.
func statementOf(tb testing.TB, report Report) string {
	tb.Helper()
	return encode(tb, reportStatement{
		Type: StatementType, Subject: []Subject{subjectOf("none", EmptyBlob().Descriptor.Digest)}, PredicateType: PredicateReport, Predicate: report,
	})
}

// carried puts an attestation's text into a report's manifest.
func carried(tb testing.TB, text string) Fetched {
	tb.Helper()
	manifest, err := newManifest(ocispec.Manifest{
		ArtifactType: ArtifactTypeReport, Config: ocispec.DescriptorEmptyJSON, Layers: []ocispec.Descriptor{ocispec.DescriptorEmptyJSON},
		Annotations: map[string]string{AnnotationReport: text},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return Fetched(manifest)
}

func TestVerifyReportRefusesWhatIsNoReport(t *testing.T) {
	signer := newSigner(t)
	known := Reporter{Runtime: testRuntime, Key: publicKey(t, signer), Enrol: tokenChecker}
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
		want    Reason
	}{
		{"a bundle is no report", Fetched(bundled), ReasonMediaType},
		{"a bundle's statement in a report's manifest is no report", carried(t, encode(t, signed(t, signer, encode(t, Statement{
			Type: StatementType, PredicateType: PredicateDesiredState, Predicate: samplePredicate(),
		})))), ReasonPredicateType},
		{"a report without a signature is refused", carried(t, ""), ReasonUnsigned},
		{"a report that was changed after signing is refused", carried(t, encode(t, changed)), ReasonBadSignature},
		{"an index is no report", Fetched{Descriptor: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageIndex}, Bytes: honest.Bytes}, ReasonMediaType},
		{"a report of more than the limit is refused", carried(t, strings.Repeat(" ", MaxAttestationBytes+1)), ReasonTooLarge},
		{"a manifest of more than the limit is refused", Fetched{Descriptor: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest}, Bytes: make([]byte, MaxManifestBytes+1)}, ReasonTooLarge},
		{"nothing is no report", Fetched{Descriptor: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest}}, ReasonMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := VerifyReport(c.fetched, known)
			wantReason(t, err, c.want)
		})
	}
	for _, d := range differentials(t, "_type") {
		for who, from := range map[string]Reporter{"of a known key": known, "of an unknown key": {Runtime: testRuntime, Enrol: tokenChecker}} {
			t.Run("in the statement "+who+" "+d.name, func(t *testing.T) {
				token := issue(t, testSecret, testRuntime, testNow.Add(time.Hour))
				report := sampleReport()
				report.Enrolment = introduction(t, token, testRuntime, signer)
				_, err := VerifyReport(carried(t, encode(t, signed(t, signer, d.change(statementOf(t, report))))), from)
				if err == nil {
					t.Fatal("was accepted")
				}
				if from.Key != nil {
					wantReason(t, err, ReasonMalformed)
				}
			})
		}
	}
	t.Run("an enrolment in another case does not stand for the one that is checked", func(t *testing.T) {
		report := sampleReport()
		report.Enrolment = introduction(t, issue(t, testSecret, testRuntime, testNow.Add(time.Hour)), testRuntime, signer)
		text := strings.Replace(statementOf(t, report), `"enrolment"`, `"Enrolment"`, 1)
		_, err := VerifyReport(carried(t, encode(t, signed(t, signer, text))), Reporter{Runtime: testRuntime, Enrol: tokenChecker})
		wantReason(t, err, ReasonMalformed)
	})
}

func TestAReportThatIsTooLargeIsNotMade(t *testing.T) {
	report := sampleReport()
	report.AgentVersion = strings.Repeat("v", MaxAttestationBytes)
	if _, err := ComposeReport(report, newSigner(t)); err == nil || !strings.Contains(err.Error(), "report of runtime "+testRuntime) {
		t.Errorf("got %v", err)
	}
}

func TestTokens(t *testing.T) {
	token := issue(t, testSecret, testRuntime, testNow)
	t.Run("a token survives its text form", func(t *testing.T) {
		parsed, err := ParseToken(" " + token.String() + "\n")
		if err != nil || parsed.String() != token.String() || !parsed.Expires.Equal(testNow) {
			t.Errorf("got %v, %v", parsed, err)
		}
	})
	t.Run("a short secret derives nothing", func(t *testing.T) {
		if _, err := TokenSecret("short").Issue(testRuntime, testNow); err == nil {
			t.Error("was accepted")
		}
		if err := TokenSecret("short").Check(testRuntime, Enrolment{}, testNow); err == nil {
			t.Error("was accepted")
		}
	})
	parts := strings.Split(token.String(), ".")
	for name, text := range map[string]string{
		"nothing is no token":                      "",
		"a token of another version is refused":    "kpt2." + parts[1] + "." + parts[2],
		"a token with a part missing is refused":   parts[0] + "." + parts[1],
		"a token with a part too many is refused":  token.String() + ".x",
		"a token whose time is no number":          parts[0] + ".soon." + parts[2],
		"a token whose time is out of range":       parts[0] + ".99999999999999999999." + parts[2],
		"a token whose code is cut off is refused": token.String()[:len(token.String())-2],
		"a token whose code is not base64":         parts[0] + "." + parts[1] + "." + strings.Repeat("!", 43),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseToken(text); err == nil || !strings.HasPrefix(err.Error(), "enrolment token: ") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func FuzzVerifyReport(f *testing.F) {
	signer := fixedSigner(f)
	honest := response(f, sampleReport(), signer)
	enrolling := sampleReport()
	enrolling.Enrolment = introduction(f, issue(f, testSecret, testRuntime, testNow.Add(time.Hour)), testRuntime, signer)
	f.Add(honest.Bytes)
	f.Add(response(f, enrolling, signer).Bytes)
	f.Add(response(f, enrolling, newSigner(f)).Bytes)
	f.Add(carried(f, "").Bytes)
	f.Add([]byte("{}"))
	for _, d := range differentials(f, "_type") {
		f.Add(carried(f, encode(f, signed(f, signer, d.change(statementOf(f, sampleReport()))))).Bytes)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fetched := Fetched{Descriptor: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest}, Bytes: data}
		for _, from := range []Reporter{{Runtime: testRuntime, Key: publicKey(t, signer), Enrol: tokenChecker}, {Runtime: testRuntime, Enrol: tokenChecker}} {
			accepted, err := VerifyReport(fetched, from)
			switch {
			case err != nil && RefusalOf(err) == nil:
				t.Errorf("%v is not a refusal", err)
			case err == nil && !reflect.DeepEqual(accepted.Key, publicKey(t, signer)):
				t.Errorf("accepted with a key that signed nothing: %+v", accepted)
			}
		}
	})
}

func FuzzParseToken(f *testing.F) {
	f.Add(issue(f, testSecret, testRuntime, testNow).String())
	f.Add("kpt1.-1." + strings.Repeat("A", 43))
	f.Add("kpt1.+5." + strings.Repeat("_", 43))
	f.Add("kpt1..")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := ParseToken(text)
		if err != nil {
			return
		}
		again, err := ParseToken(token.String())
		if err != nil || again.String() != token.String() {
			t.Errorf("%q became %q, %v", token, again, err)
		}
	})
}
