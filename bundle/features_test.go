package bundle

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func later(t *testing.T, a *attempt) {
	t.Helper()
	a.payload = append(a.payload, replace(t, `"predicate":{`, `"predicate":{"onlyOnMondays":{"a":[1]},`),
		replace(t, `"audience":{`, `"audience":{"region":"x",`),
		replace(t, `"subject":[{`, `"subject":[{"uri":"x",`), replace(t, `{"_type"`, `{"later":1,"_type"`))
	for blob, old := range map[*Blob]string{&a.documents.State: `"manifests":[{`,
		&a.documents.Catalog: `"moduleTemplates":[{`} {
		text := replace(t, old, old+`"later":{"x":1},`)(string(blob.Bytes))
		*blob = NewBlob(blob.Descriptor.MediaType,
			[]byte(replace(t, `{"apiVersion"`, `{"later":[{}],"apiVersion"`)(text)))
	}
}

func TestUnknownFieldsOfSignedDocumentsAreIgnored(t *testing.T) {
	open := func(a *attempt) Bundle {
		verified, err := a.verify(t)
		if err != nil {
			t.Fatal(err)
		}
		opened, err := verified.Open(a.documents.State.Bytes, a.documents.Catalog.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return opened
	}
	plain, extended := newAttempt(t), newAttempt(t)
	later(t, extended)
	extended.predicate(func(p *Predicate) { p.Critical = AllFeatures() })
	for _, pair := range [][2]any{{open(plain).State, open(extended).State},
		{open(plain).Modules, open(extended).Modules}} {
		if a, b := encode(t, pair[0]), encode(t, pair[1]); a != b {
			t.Errorf("got %s, want %s", b, a)
		}
	}
	for place, change := range map[string]func(string) string{
		"capitalized predicate field": replace(t, `"predicate":{`, `"predicate":{"onlyOnMondays":1,"Epoch":1,`),
		"list field with a capital letter": replace(t, `"predicate":{`,
			`"predicate":{"onlyOnMondays":1,"RemovalS":["keda"],`),
		"upper-case subject field":           replace(t, `"digest":{`, `"later":1,"DIGEST":{},"digest":{`),
		"unknown field with a duplicate key": replace(t, `"predicate":{`, `"predicate":{"later":{"a":1,"a":2},`),
	} {
		a := newAttempt(t)
		a.payload = append(a.payload, change)
		if _, err := a.verify(t); refusal.Of(err) == nil || refusal.Of(err).Reason != refusal.Malformed {
			t.Errorf("%s: got error %v, want refusal reason %s", place, err, refusal.Malformed)
		}
	}
}

func TestUnknownCriticalFeatureIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		critical []Feature
		want     refusal.Reason
	}{
		"unknown feature":                       {[]Feature{"teleport"}, refusal.UnsupportedFeature},
		"unknown feature after a known feature": {[]Feature{FeatureTakeover, "teleport"}, refusal.UnsupportedFeature},
		"feature with an empty name":            {[]Feature{""}, refusal.Malformed},
		"feature with an upper-case letter":     {[]Feature{"Takeover"}, refusal.Malformed},
		"duplicate feature":                     {[]Feature{FeatureTakeover, FeatureTakeover}, refusal.Malformed},
		"more features than the limit":          {slices.Repeat([]Feature{"a"}, maxFeatures+1), refusal.Malformed},
		"feature name longer than the limit": {
			[]Feature{Feature(strings.Repeat("a", maxFeatureBytes+1))}, refusal.Malformed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAttempt(t)
			a.predicate(func(p *Predicate) { p.Critical = c.critical })
			later(t, a)
			_, err := a.verify(t)
			trusttest.WantReason(t, err, c.want)
			_, err = Adopt(a.fetched(t), trusttest.Runtime, a.trust.Root)
			trusttest.WantReason(t, err, c.want)
		})
	}
	t.Run("unknown fields before authentication are refused", func(t *testing.T) {
		a := newAttempt(t)
		a.predicate(func(p *Predicate) { p.Critical = []Feature{"teleport"} })
		a.envelope = append(a.envelope, func(e *attestation) { e.Envelope.Signatures[0].Sig[8] ^= 1 })
		_, err := a.verify(t)
		trusttest.WantReason(t, err, refusal.BadSignature)
	})
}

func TestReportsWithOtherVersionsAreAccepted(t *testing.T) {
	signer := trusttest.NewSigner(t)
	from := Reporter{Runtime: trusttest.Runtime, Key: trusttest.PublicKey(t, signer)}
	verify := func(payload string) (AcceptedReport, error) {
		return VerifyReport(carried(t, encode(t, signed(t, signer, payload))), from)
	}
	composed, err := ComposeReport(sampleReport(), signer)
	if err != nil {
		t.Fatal(err)
	}
	today, err := VerifyReport(Fetched(composed), from)
	if err != nil || !slices.Equal(today.Features, AllFeatures()) {
		t.Fatalf("agent of this version: got features %v, error %v, want all features", today.Features, err)
	}
	text := attested(t, composed)
	all := encode(t, AllFeatures())
	listing := func(features string) func(string) string {
		return replace(t, `"features":`+all, `"features":`+features)
	}
	newer, err := verify(replace(t, `"runtime"`, `"later":{"x":1},"runtime"`)(listing(`["teleport"]`)(text)))
	if err != nil || !slices.Equal(newer.Features, []Feature{"teleport"}) {
		t.Errorf("agent of a later version: got features %v, error %v, want its feature", newer.Features, err)
	}
	if today.Content == newer.Content {
		t.Error("reports with different features have the same content, want different contents")
	}
	for name, features := range map[string]string{
		"duplicate feature": `["teleport","teleport"]`, "features out of order": `["teleport","recreate"]`,
		"invalid feature name": `["Teleport"]`,
		"too many features":    encode(t, slices.Repeat([]Feature{"a"}, maxFeatures+1)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := verify(listing(features)(text))
			trusttest.WantReason(t, err, refusal.Malformed)
		})
	}
	_, err = verify(replace(t, `"runtime"`, `"critical":["teleport"],"runtime"`)(text))
	trusttest.WantReason(t, err, refusal.UnsupportedFeature)
}

func TestImageListsWithOtherVersionsAreAccepted(t *testing.T) {
	signer := trusttest.NewSigner(t)
	root := trusttest.RootFor(t, signer)
	plain, err := NewCarried(nil, []CarriedBundle{{Runtime: trusttest.Runtime, Digest: EmptyBlob().Descriptor.Digest}})
	if err != nil {
		t.Fatal(err)
	}
	list := NewBlob(MediaTypeCarried,
		[]byte(replace(t, `"bundles":[{`, `"later":[{}],"bundles":[{"later":1,`)(string(plain.Bytes))))
	verify := func(change func(string) string) (VerifiedCarried, error) {
		payload := change(encode(t, carriedStatement{
			Type: StatementType, Subject: []Subject{newSubject(blobName(0), list.Descriptor.Digest)},
			PredicateType: PredicateCarried,
			Predicate:     CarriedPredicate{Epoch: 1, Sequence: 1},
		}))
		manifest, err := NewManifest(ocispec.Manifest{
			ArtifactType: ArtifactTypeCarried, Config: list.Descriptor,
			Layers:      []ocispec.Descriptor{ocispec.DescriptorEmptyJSON},
			Annotations: map[string]string{AnnotationAttestation: encode(t, signed(t, signer, payload))},
		})
		if err != nil {
			t.Fatal(err)
		}
		return VerifyCarried(Fetched(manifest), root)
	}
	verified, err := verify(replace(t, `"predicate":{`, `"predicate":{"later":{"x":1},"critical":["takeover"],`))
	if err != nil || verified.Predicate.Sequence != 1 {
		t.Fatalf("image list of a later version: got %+v, error %v, want sequence 1", verified, err)
	}
	read, err := DecodeCarried(list.Bytes)
	if err != nil || len(read.Bundles) != 1 || read.Bundles[0].Runtime != trusttest.Runtime {
		t.Errorf("got image list %+v, error %v, want the bundle of one runtime", read, err)
	}
	_, err = verify(replace(t, `"predicate":{`, `"predicate":{"critical":["teleport"],`))
	trusttest.WantReason(t, err, refusal.UnsupportedFeature)
}

func attested(t *testing.T, manifest Blob) string {
	t.Helper()
	read, refused := ReadManifest(Fetched(manifest), ArtifactTypeReport)
	if refused != nil {
		t.Fatal(refused)
	}
	a, refused := readAttestationWithin([]byte(read.Annotations[AnnotationReport]), MaxReportBytes)
	if refused != nil {
		t.Fatal(refused)
	}
	return string(a.Envelope.Payload)
}

func TestDesiredStateListsItsFeatures(t *testing.T) {
	if !slices.IsSorted(AllFeatures()) || checkFeatures(AllFeatures()) != nil {
		t.Errorf("got features %v, want sorted, valid names", AllFeatures())
	}
	state := DesiredState{Takeover: TakeoverAdopt, Settings: Settings{
		ImagePullSecret: "pull", NamespaceLabels: map[string]string{"istio-injection": "enabled"},
		NextRegistry: &NextRegistry{Location: "next.example/fleet"},
	},
		Offers: []Manifest{{Annotations: map[string]string{v1beta2.AnnotationRequiresFeatures: "recreate"}}}}
	want := []Feature{
		FeatureImagePullSecret, FeatureNamespaceLabels, FeatureNextRegistry, FeatureRecreate, FeatureTakeover,
	}
	if got := state.Features(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := state.CriticalFeatures(); !slices.Equal(got, []Feature{FeatureRecreate, FeatureTakeover}) {
		t.Errorf("got critical features %v, want recreate and takeover", got)
	}
	settings, left := state.Settings.Without(func(f Feature) bool { return f == FeatureNamespaceLabels })
	if settings.ImagePullSecret != "" || settings.NamespaceLabels == nil || settings.NextRegistry != nil ||
		!slices.Equal(left, []Feature{FeatureImagePullSecret, FeatureNextRegistry}) {
		t.Errorf("got settings %+v and missing features %v, want only namespace labels", settings, left)
	}
	if text, err := json.Marshal(Predicate{}); err != nil || strings.Contains(string(text), "critical") {
		t.Errorf("predicate without critical features: got %s, error %v, want no field critical", text, err)
	}
}
