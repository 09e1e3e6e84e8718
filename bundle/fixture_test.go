package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/strict"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

const (
	testCluster = "6f1c2d9e-0000-4000-8000-000000000017"
)

func sampleState() DesiredState {
	state := DesiredState{
		Kyma: KymaSeed{Labels: map[string]string{"team": "a"}, Spec: v1beta2.KymaSpec{Channel: "regular"}},
		CRDs: []string{"kedas.operator.kyma-project.io"},
	}
	blob := NewBlob("application/x-tar", []byte("content"))
	state.Manifests = []Manifest{{
		Name: "keda", Module: "keda", Channel: "regular", Version: "1.8.0",
		Spec: v1beta2.ManifestSpec{Install: v1beta2.InstallInfo{Name: "raw-manifest"}, Version: "1.8.0"},
		Content: []Content{{
			Name: "raw-manifest", Repository: "registry.example/keda", MediaType: blob.Descriptor.MediaType,
			Digest: blob.Descriptor.Digest, SizeBytes: blob.Descriptor.Size,
		}},
	}}
	return state
}

func sampleCatalog() Catalog {
	return Catalog{
		ModuleTemplates: []CatalogEntry{
			{Name: "keda-1.8.0", Spec: json.RawMessage(`{"moduleName":"keda","version":"1.8.0"}`)},
		},
		ModuleReleaseMetas: []CatalogEntry{
			{Name: "keda", Spec: json.RawMessage(`{"channels":[{"channel":"regular","version":"1.8.0"}]}`)},
		},
	}
}

func sampleDocuments(tb testing.TB) Documents {
	tb.Helper()
	documents, err := NewDocuments(sampleState(), sampleCatalog())
	if err != nil {
		tb.Fatal(err)
	}
	return documents
}

func samplePredicate() Predicate {
	return Predicate{
		Audience: Audience{Runtime: trusttest.Runtime, ClusterUID: testCluster},
		Epoch:    1, Sequence: 100, IssuedAt: trusttest.Now.Add(-time.Hour), ExpiresAt: trusttest.Now.AddDate(0, 0, 7),
		RootVersion: 1,
	}
}

// attempt builds a bundle for a runtime. Tests set its hooks to change parts of the bundle.
type attempt struct {
	signer      trust.Signer
	documents   Documents
	trust       Trust
	now         time.Time
	statement   []func(*Statement)
	payload     []func(string) string
	envelope    []func(*attestation)
	attestation []func(string) string
	manifest    []func(*ocispec.Manifest)
	body        []func(string) string
	response    []func(*Fetched)
}

func newAttempt(tb testing.TB) *attempt {
	tb.Helper()
	return attemptBy(tb, trusttest.NewSigner(tb))
}

func attemptBy(tb testing.TB, signer trust.Signer) *attempt {
	tb.Helper()
	return &attempt{
		signer: signer, documents: sampleDocuments(tb), now: trusttest.Now,
		trust: Trust{Root: trusttest.RootFor(tb, signer), Runtime: trusttest.Runtime, ClusterUID: testCluster},
	}
}

func sign(tb testing.TB, signer trust.Signer, payload string) []byte {
	tb.Helper()
	sig, err := signer.SignMessage(bytes.NewReader(preAuthEncoding([]byte(payload))))
	if err != nil {
		tb.Fatal(err)
	}
	return sig
}

func encode(tb testing.TB, v any) string {
	tb.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

func signed(tb testing.TB, signer trust.Signer, payload string) attestation {
	tb.Helper()
	return attestation{
		MediaType:            MediaTypeSigstoreBundle,
		VerificationMaterial: verificationMaterial{PublicKey: publicKeyHint{Hint: trusttest.Thumbprint(tb, signer)}},
		Envelope: envelope{
			Payload: []byte(payload), PayloadType: payloadTypeInToto,
			Signatures: []envelopeSign{{Sig: sign(tb, signer, payload)}},
		},
	}
}

func (a *attempt) fetched(tb testing.TB) Fetched {
	tb.Helper()
	s := Statement{
		Type: StatementType, PredicateType: PredicateDesiredState, Predicate: samplePredicate(),
		Subject: []Subject{
			newSubject("config", a.documents.State.Descriptor.Digest),
			newSubject("layers[0]", a.documents.Catalog.Descriptor.Digest),
		},
	}
	for _, change := range a.statement {
		change(&s)
	}
	payload := encode(tb, s)
	for _, change := range a.payload {
		payload = change(payload)
	}
	wrapped := signed(tb, a.signer, payload)
	for _, change := range a.envelope {
		change(&wrapped)
	}
	text := encode(tb, wrapped)
	for _, change := range a.attestation {
		text = change(text)
	}
	manifest := ocispec.Manifest{
		MediaType: ocispec.MediaTypeImageManifest, ArtifactType: ArtifactTypeBundle,
		Config:      a.documents.State.Descriptor,
		Layers:      []ocispec.Descriptor{a.documents.Catalog.Descriptor},
		Annotations: map[string]string{AnnotationAttestation: text},
	}
	manifest.SchemaVersion = 2
	for _, change := range a.manifest {
		change(&manifest)
	}
	body := encode(tb, manifest)
	for _, change := range a.body {
		body = change(body)
	}
	blob := NewBlob(ocispec.MediaTypeImageManifest, []byte(body))
	fetched := Fetched(blob)
	for _, change := range a.response {
		change(&fetched)
	}
	return fetched
}

func (a *attempt) verify(tb testing.TB) (Verified, error) {
	tb.Helper()
	return Verify(a.fetched(tb), a.trust, a.now)
}

func (a *attempt) predicate(change func(*Predicate)) {
	a.statement = append(a.statement, func(s *Statement) { change(&s.Predicate) })
}

func replace(tb testing.TB, old, by string) func(string) string {
	tb.Helper()
	return func(text string) string {
		if !strings.Contains(text, old) {
			tb.Fatalf("%q is not in %s", old, text)
		}
		return strings.Replace(text, old, by, 1)
	}
}

type differential struct {
	name   string
	change func(object string) string
	later  bool
}

func differentials(tb testing.TB, firstKey string) []differential {
	escaped := fmt.Sprintf(`"\u%04x%s"`, firstKey[0], firstKey[1:])
	upper := strings.ToUpper(firstKey)
	prepend := func(member string) func(string) string { return replace(tb, "{", "{"+member+",") }
	return []differential{
		{name: "a key appears twice", change: prepend(fmt.Sprintf("%q:null", firstKey))},
		{name: "a key appears twice, once in escaped form", change: prepend(escaped + ":null")},
		{name: "a key appears again with different capitalization", change: prepend(fmt.Sprintf("%q:null", upper))},
		{name: "a key is unknown", change: prepend(`"extra":1`), later: true},
		{name: "a key below an unknown key appears twice", change: prepend(`"extra":{"a":1,"a":2}`)},
		{name: "nesting is one level too deep", change: prepend(`"extra":` + trusttest.Nested(strict.MaxJSONDepth))},
		{name: "nesting is ten times too deep", change: prepend(`"extra":` + trusttest.Nested(10*strict.MaxJSONDepth))},
		{name: "a second document follows", change: func(o string) string { return o + "{}" }},
		{name: "text that is not JSON follows", change: func(o string) string { return o + "x" }},
		{name: "the end is cut off", change: func(o string) string { return o[:len(o)-1] }},
		{name: "the object is inside an array", change: func(o string) string { return "[" + o + "]" }},
		{name: "the object is a string", change: func(string) string { return `"x"` }},
		{name: "a byte order mark precedes the object", change: func(o string) string { return "\ufeff" + o }},
		{name: "a comment follows the object", change: func(o string) string { return o + "//" }},
	}
}
