package bundle

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sigstore/sigstore/pkg/cryptoutils"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/strict"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func TestVerifyRefusesAmbiguousJSON(t *testing.T) {
	for place, c := range map[string]struct {
		firstKey string
		hook     func(*attempt, func(string) string)
	}{
		"ambiguous manifest": {"schemaVersion", func(a *attempt, h func(string) string) { a.body = append(a.body, h) }},
		"ambiguous attestation": {
			"mediaType", func(a *attempt, h func(string) string) { a.attestation = append(a.attestation, h) },
		},
		"ambiguous statement": {"_type", func(a *attempt, h func(string) string) { a.payload = append(a.payload, h) }},
	} {
		for _, d := range differentials(t, c.firstKey) {
			if d.later && place == "ambiguous statement" {
				continue // see TestUnknownFieldsOfSignedDocumentsAreIgnored
			}
			t.Run(place+": "+d.name, func(t *testing.T) {
				a := newAttempt(t)
				c.hook(a, d.change)
				_, err := a.verify(t)
				trusttest.WantReason(t, err, refusal.Malformed)
			})
		}
	}
	// The following changes are in nested fields, in types with their own decoder, and in maps.
	for name, change := range map[string]func(*testing.T, *attempt){
		"duplicate key in the manifest's annotations": func(t *testing.T, a *attempt) {
			a.body = append(a.body, replace(t, `"annotations":{`, `"annotations":{"`+AnnotationAttestation+`":"",`))
		},
		"key with different capitalization in the manifest's config": func(t *testing.T, a *attempt) {
			a.body = append(a.body, replace(t, `"config":{`, `"config":{"Digest":"x",`))
		},
		"duplicate payload in the envelope": func(t *testing.T, a *attempt) {
			a.attestation = append(a.attestation, replace(t, `"dsseEnvelope":{`, `"dsseEnvelope":{"payload":"e30=",`))
		},
		"unknown key in a signature of the envelope": func(t *testing.T, a *attempt) {
			a.attestation = append(a.attestation, replace(t, `{"sig":`, `{"keyid":"x","sig":`))
		},
		"duplicate runtime in the audience": func(t *testing.T, a *attempt) {
			a.payload = append(a.payload, replace(t, `"audience":{`, `"audience":{"runtime":"r-18",`))
		},
		"runtime with different capitalization in the audience": func(t *testing.T, a *attempt) {
			a.payload = append(a.payload, replace(t, `"audience":{`, `"audience":{"Runtime":"r-18",`))
		},
		"duplicate digest in a subject": func(t *testing.T, a *attempt) {
			a.payload = append(a.payload, replace(t, `"digest":{`, `"digest":{"sha256":"00",`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAttempt(t)
			change(t, a)
			_, err := a.verify(t)
			trusttest.WantReason(t, err, refusal.Malformed)
		})
	}
}

func TestOpenRefusesAmbiguousJSON(t *testing.T) {
	open := func(t *testing.T, change func(*Documents)) {
		t.Helper()
		a := newAttempt(t)
		change(&a.documents)
		verified, err := a.verify(t)
		if err != nil {
			t.Fatal(err)
		}
		_, err = verified.Open(a.documents.State.Bytes, a.documents.Catalog.Bytes)
		trusttest.WantReason(t, err, refusal.Malformed)
	}
	rewrite := func(blob *Blob, change func(string) string) {
		*blob = NewBlob(blob.Descriptor.MediaType, []byte(change(string(blob.Bytes))))
	}
	for _, d := range differentials(t, "apiVersion") {
		if d.later {
			continue
		}
		t.Run("ambiguous desired state: "+d.name, func(t *testing.T) {
			open(t, func(ds *Documents) { rewrite(&ds.State, d.change) })
		})
		t.Run("ambiguous catalog: "+d.name, func(t *testing.T) {
			open(t, func(ds *Documents) { rewrite(&ds.Catalog, d.change) })
		})
	}
	for name, change := range map[string]func(*testing.T, *Documents){
		"duplicate key in the raw spec of a ModuleTemplate": func(t *testing.T, ds *Documents) {
			rewrite(&ds.Catalog, replace(t, `"spec":{`, `"spec":{"version":"6.6.6",`))
		},
		"spec of a ModuleTemplate nested deeper than the limit": func(t *testing.T, ds *Documents) {
			rewrite(&ds.Catalog, replace(t, `"spec":{`, `"spec":{"x":`+trusttest.Nested(strict.MaxJSONDepth)+`,`))
		},
		"key with different capitalization in a module's spec": func(t *testing.T, ds *Documents) {
			rewrite(&ds.State, replace(t, `"install":{`, `"Install":{},"install":{`))
		},
		"duplicate digest in a module's content": func(t *testing.T, ds *Documents) {
			rewrite(&ds.State, replace(t, `"content":[{`, `"content":[{"digest":"sha256:00",`))
		},
		"catalog in place of the desired state": func(_ *testing.T, ds *Documents) {
			ds.State = NewBlob(MediaTypeDesiredState, ds.Catalog.Bytes)
		},
		"desired state in place of the catalog": func(_ *testing.T, ds *Documents) {
			ds.Catalog = NewBlob(MediaTypeCatalog, ds.State.Bytes)
		},
	} {
		t.Run(name, func(t *testing.T) { open(t, func(ds *Documents) { change(t, ds) }) })
	}
}

func TestOpenRefusesUnsignedBytes(t *testing.T) {
	a := newAttempt(t)
	verified, err := a.verify(t)
	if err != nil {
		t.Fatal(err)
	}
	flipped := func(data []byte) []byte {
		out := []byte(string(data))
		out[len(out)/2] ^= 1
		return out
	}
	state, catalog := a.documents.State.Bytes, a.documents.Catalog.Bytes
	for name, c := range map[string]struct{ config, catalog []byte }{
		"a byte of the config is flipped":  {flipped(state), catalog},
		"a byte of the catalog is flipped": {state, flipped(catalog)},
		"the config is cut off":            {state[:len(state)-1], catalog},
		"the catalog has an extra byte":    {state, append(catalog[:len(catalog):len(catalog)], ' ')},
		"the config is missing":            {nil, catalog},
		"the two documents are swapped":    {catalog, state},
		"config in place of the catalog":   {state, state},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := verified.Open(c.config, c.catalog)
			trusttest.WantReason(t, err, refusal.WrongDigest)
		})
	}
}

// Verify must return the signed bundle or an error.
func TestFlippedByteNeverChangesTheAcceptedBundle(t *testing.T) {
	a := newAttempt(t)
	honest := a.fetched(t)
	want, err := Verify(honest, a.trust, a.now)
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(17)
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range honest.Bytes {
		flipped := Fetched{Descriptor: honest.Descriptor, Bytes: []byte(string(honest.Bytes))}
		flipped.Bytes[i] ^= byte(1 + random.IntN(255))
		if _, err := Verify(flipped, a.trust, a.now); refusal.Of(err) == nil ||
			refusal.Of(err).Reason != refusal.WrongDigest {
			t.Fatalf("byte %d: got %v, want %s", i, err, refusal.WrongDigest)
		}
		// When a manifest is fetched by its tag, no digest protects it from a malicious registry.
		flipped.Descriptor.Digest = ""
		got, err := Verify(flipped, a.trust, a.now)
		if err != nil {
			if refusal.Of(err) == nil {
				t.Fatalf("byte %d: got error %v, want a refusal", i, err)
			}
			continue
		}
		if !reflect.DeepEqual(got.Statement, want.Statement) || got.Config.Digest != want.Config.Digest ||
			got.Catalog.Digest != want.Catalog.Digest {
			t.Fatalf("byte %d: got %+v, want %+v", i, got, want)
		}
	}
}

func TestVerifyReportsMissedBundles(t *testing.T) {
	last := Accepted{Epoch: 1, Sequence: 90, Digest: digest.FromString("90")}
	for name, c := range map[string]struct {
		last     Accepted
		previous *Position
		want     bool
	}{
		"no gap before the first bundle of a runtime": {Accepted{}, nil, false},
		"no gap before the first received bundle of a runtime": {
			Accepted{}, &Position{90, last.Digest}, false,
		},
		"no gap before the successor of the last bundle": {last, &Position{90, last.Digest},
			false},
		"a gap if the previous bundle was missed": {
			last, &Position{95, digest.FromString("95")}, true,
		},
		"a gap if the previous bundle has the same sequence but another digest": {
			last, &Position{90, digest.FromString("another")}, true,
		},
		"a gap if the bundle names no previous bundle": {last, nil, true},
		"no gap before the first bundle of a new epoch": {
			Accepted{Sequence: 90, Digest: last.Digest}, nil, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAttempt(t)
			a.trust.Last = c.last
			a.predicate(func(p *Predicate) { p.Previous = c.previous })
			verified, err := a.verify(t)
			if err != nil {
				t.Fatal(err)
			}
			if verified.Gap != c.want {
				t.Errorf("got gap %t, want %t", verified.Gap, c.want)
			}
		})
	}
	t.Run("no gap if the same bundle is verified again", func(t *testing.T) {
		a := newAttempt(t)
		fetched := a.fetched(t)
		a.trust.Last = Accepted{Epoch: 1, Sequence: 100, Digest: fetched.Descriptor.Digest}
		verified, err := Verify(fetched, a.trust, a.now)
		if err != nil || verified.Gap {
			t.Errorf("got gap %t, error %v, want no gap", verified.Gap, err)
		}
	})
}

func TestNewestAcceptedBundleTimeNeverDecreases(t *testing.T) {
	for name, c := range map[string]struct{ before, want time.Time }{
		"bundle issued after the newest accepted time": {
			trusttest.Now.Add(-2 * time.Hour), trusttest.Now.Add(-time.Hour),
		},
		"bundle issued before the newest accepted time": {trusttest.Now, trusttest.Now},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAttempt(t)
			a.trust.Last.NewestTime = c.before
			verified, err := a.verify(t)
			if err != nil || !verified.Accepted.NewestTime.Equal(c.want) {
				t.Errorf("got %s, %v, want %s", verified.Accepted.NewestTime, err, c.want)
			}
		})
	}
}

func TestAdoptAcceptsExpiredBundlesAndOtherEpochs(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*attempt)
		want   refusal.Reason
	}{
		{"an expired bundle is accepted", func(a *attempt) {
			a.predicate(func(p *Predicate) {
				p.IssuedAt, p.ExpiresAt = trusttest.Now.AddDate(-2, 0, 0), trusttest.Now.AddDate(-1, 0, 0)
			})
		}, ""},
		{
			"a bundle with another epoch is accepted",
			func(a *attempt) { a.predicate(func(p *Predicate) { p.Epoch = 7 }) }, "",
		},
		{
			"another runtime's bundle is refused",
			func(a *attempt) { a.predicate(func(p *Predicate) { p.Audience.Runtime = "r-18" }) }, refusal.WrongRuntime,
		},
		{
			"a bundle signed with an unknown key is refused",
			func(a *attempt) { a.trust.Root = trusttest.RootFor(t, trusttest.NewSigner(t)) }, refusal.UnknownKey,
		},
		{"an unsigned bundle is refused", func(a *attempt) {
			a.manifest = append(a.manifest, func(m *ocispec.Manifest) { m.Annotations = nil })
		}, refusal.Unsigned},
		{"a bundle whose signature covers another config is refused", func(a *attempt) {
			a.manifest = append(a.manifest, func(m *ocispec.Manifest) { m.Config.Digest = digest.FromString("other") })
		}, refusal.WrongDigest},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAttempt(t)
			c.change(a)
			_, err := Adopt(a.fetched(t), trusttest.Runtime, a.trust.Root)
			trusttest.WantReason(t, err, c.want)
		})
	}
}

func TestNextSequenceIsHigherThanThePreviousOne(t *testing.T) {
	at := time.UnixMilli(1_000)
	for name, c := range map[string]struct{ last, want int64 }{
		"first sequence is the current time":            {0, 1_000},
		"next sequence is the current time":             {500, 1_000},
		"two sequences in one millisecond differ":       {1_000, 1_001},
		"clock set back does not decrease the sequence": {5_000, 5_001},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NextSequence(c.last, at); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestAttestationsFromOtherToolsAreAccepted(t *testing.T) {
	const sample = "../../shared/realworld/sigstore_bundle_v03_sample"
	data, err := os.ReadFile(filepath.FromSlash(sample + ".json"))
	if err != nil {
		t.Skipf("%s.json not found beside this checkout", sample)
	}
	file, err := os.ReadFile(filepath.FromSlash(sample + ".pub"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := cryptoutils.UnmarshalPEMToPublicKey(file)
	if err != nil {
		t.Fatal(err)
	}
	read, refused := readAttestation(data)
	if refused != nil {
		t.Fatal(refused)
	}
	if hint, err := trust.Thumbprint(key); err != nil || hint != read.VerificationMaterial.PublicKey.Hint {
		t.Errorf("hint is %s, want %s", read.VerificationMaterial.PublicKey.Hint, hint)
	}
	if !trust.CheckSignature(key, preAuthEncoding(read.Envelope.Payload), read.Envelope.Signatures[0].Sig) {
		t.Error("signature is not valid, want a valid signature")
	}
	read.Envelope.Payload[0] ^= 1
	if _, refused := read.authenticate(key); refused == nil || refused.Reason != refusal.BadSignature {
		t.Errorf("changed payload: got %v, want a refusal", refused)
	}
}

func TestCheckJSONLimitsDepthAndRefusesDuplicateKeys(t *testing.T) {
	for name, c := range map[string]struct {
		in string
		ok bool
	}{
		"arrays nested to the limit":     {trusttest.Nested(strict.MaxJSONDepth), true},
		"arrays nested beyond the limit": {trusttest.Nested(strict.MaxJSONDepth + 1), false},
		"objects nested to the limit": {
			strings.Repeat(`{"a":`, strict.MaxJSONDepth) + "1" + strings.Repeat("}", strict.MaxJSONDepth), true,
		},
		"objects nested beyond the limit": {
			strings.Repeat(`{"a":`, strict.MaxJSONDepth+1) + "1" + strings.Repeat("}", strict.MaxJSONDepth+1), false,
		},
		"equal keys in two objects":               {`[{"a":1},{"a":2}]`, true},
		"duplicate key after a nested object":     {`{"a":{"b":1},"b":2,"a":3}`, false},
		"duplicate key after an array of objects": {`{"a":[{"a":1}],"a":2}`, false},
		"value equal to its key":                  {`{"a":"a","b":"a"}`, true},
		"empty input":                             {``, false},
		"only white space":                        {" \n", false},
		"two documents":                           {`1 2`, false},
		"unterminated array":                      {strings.Repeat("[", 1<<16), false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := checkJSON([]byte(c.in)); (err == nil) != c.ok {
				t.Errorf("got %v, want accepted: %t", err, c.ok)
			}
		})
	}
}

func FuzzVerify(f *testing.F) {
	a := attemptBy(f, trusttest.FixedSigner(f))
	honest := a.fetched(f)
	want, err := Verify(honest, a.trust, a.now)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(honest.Bytes)
	for _, c := range checks(f) {
		faulty := attemptBy(f, trusttest.FixedSigner(f))
		c.fault(faulty)
		if data := faulty.fetched(f).Bytes; len(data) < 1<<16 {
			f.Add(data)
		}
	}
	for _, d := range differentials(f, "schemaVersion") {
		f.Add([]byte(d.change(string(honest.Bytes))))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Verify(Fetched{Descriptor: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest},
			Bytes: data}, a.trust, a.now)
		switch {
		case err != nil && refusal.Of(err) == nil:
			t.Errorf("got error %v, want a refusal", err)
		case err == nil &&
			(!reflect.DeepEqual(got.Statement, want.Statement) || got.Config.Digest != want.Config.Digest ||
				got.Catalog.Digest != want.Catalog.Digest):
			t.Errorf("accepted bundle %+v, want the signed bundle %+v", got, want)
		}
	})
}
