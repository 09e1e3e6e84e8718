package bundle

import (
	"crypto/ed25519"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func TestVerifyAcceptsAValidBundle(t *testing.T) {
	a := newAttempt(t)
	fetched := a.fetched(t)
	verified, err := Verify(fetched, a.trust, a.now)
	if err != nil {
		t.Fatal(err)
	}
	want := Accepted{
		Epoch: 1, Sequence: 100, Digest: fetched.Descriptor.Digest, Statement: verified.Accepted.Statement,
		NewestTime: trusttest.Now.Add(-time.Hour),
	}
	if want.Statement == "" || verified.Accepted != want || verified.Gap ||
		verified.KeyThumbprint != trusttest.Thumbprint(t, a.signer) {
		t.Errorf("got %+v, want accepted record %+v", verified, want)
	}
	opened, err := verified.Open(a.documents.State.Bytes, a.documents.Catalog.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if opened.State.Manifests[0].Name != "keda" || len(opened.Modules.ModuleTemplates) != 1 {
		t.Errorf("got bundle %+v, want module keda and one ModuleTemplate", opened)
	}
}

func TestVerifyAcceptsComposedBundle(t *testing.T) {
	_, privateEd, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	ed, err := signature.LoadED25519Signer(privateEd)
	if err != nil {
		t.Fatal(err)
	}
	for name, signer := range map[string]trust.Signer{"with an ECDSA P-256 key": trusttest.NewSigner(t),
		"with an Ed25519 key": ed} {
		t.Run(name, func(t *testing.T) {
			documents := sampleDocuments(t)
			manifest, err := Compose(documents, samplePredicate(), signer)
			if err != nil {
				t.Fatal(err)
			}
			trust := Trust{Root: trusttest.RootFor(t, signer), Runtime: trusttest.Runtime, ClusterUID: testCluster}
			verified, err := Verify(Fetched(manifest), trust, trusttest.Now)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(verified.Statement.Predicate, samplePredicate()) {
				t.Errorf("got %+v, want %+v", verified.Statement.Predicate, samplePredicate())
			}
		})
	}
}

func TestBundleStatementContainsTheCommit(t *testing.T) {
	a := newAttempt(t)
	want := Source{Repository: "https://git.example/fleet", Commit: strings.Repeat("a", 40)}
	a.predicate(func(p *Predicate) { p.Source = &want })
	verified, err := Verify(a.fetched(t), a.trust, a.now)
	if err != nil || verified.Statement.Predicate.Source == nil || *verified.Statement.Predicate.Source != want {
		t.Errorf("got source %+v, error %v, want %+v", verified.Statement.Predicate.Source, err, want)
	}
	if verified.Config.Digest != a.documents.State.Descriptor.Digest ||
		strings.Contains(string(a.documents.State.Bytes), want.Commit) {
		t.Error("the shared documents contain the commit, want it only in the statement")
	}
}

func checks(tb testing.TB) []struct {
	name  string
	fault func(*attempt)
	want  refusal.Reason
} {
	onBody := func(change func(string) string) func(*attempt) {
		return func(a *attempt) { a.body = append(a.body, change) }
	}
	onResponse := func(change func(*Fetched)) func(*attempt) {
		return func(a *attempt) { a.response = append(a.response, change) }
	}
	onEnvelope := func(change func(*attestation)) func(*attempt) {
		return func(a *attempt) { a.envelope = append(a.envelope, change) }
	}
	return []struct {
		name  string
		fault func(*attempt)
		want  refusal.Reason
	}{
		{"the manifest is larger than the limit", onResponse(func(f *Fetched) {
			f.Bytes = append(f.Bytes, strings.Repeat(" ", MaxManifestBytes)...)
		}), refusal.TooLarge},
		{
			"the manifest does not match its digest",
			onResponse(func(f *Fetched) { f.Descriptor.Digest = digest.FromString("other") }), refusal.WrongDigest,
		},
		{
			"the response has the media type of an index",
			onResponse(func(f *Fetched) { f.Descriptor.MediaType = ocispec.MediaTypeImageIndex }), refusal.MediaType,
		},
		{"the manifest is also an index", onBody(replace(tb, "{", `{"manifests":[],`)), refusal.Malformed},
		{
			"the body has the media type of an index",
			onBody(replace(tb, ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex)), refusal.MediaType,
		},
		{"the artifact is a report", onBody(replace(tb, ArtifactTypeBundle, ArtifactTypeReport)), refusal.MediaType},
		{
			"the config has another media type", onBody(replace(tb, MediaTypeDesiredState, MediaTypeCatalog)),
			refusal.MediaType,
		},
		{
			"the attestation has a different version",
			onEnvelope(func(a *attestation) { a.MediaType = strings.Replace(a.MediaType, "v0.3", "v0.2", 1) }),
			refusal.MediaType,
		},
		{
			"the payload has another type",
			onEnvelope(func(a *attestation) { a.Envelope.PayloadType = "text/plain" }), refusal.MediaType,
		},
		{"there are two signatures", onEnvelope(func(a *attestation) {
			a.Envelope.Signatures = append(a.Envelope.Signatures, a.Envelope.Signatures[0])
		}), refusal.Malformed},
		{
			"the root does not list the key",
			func(a *attempt) { a.trust.Root = trusttest.RootFor(tb, trusttest.NewSigner(tb)) }, refusal.UnknownKey,
		},
		{"the signature was made with another key", onEnvelope(func(at *attestation) {
			at.Envelope.Signatures[0].Sig = sign(tb, trusttest.NewSigner(tb), string(at.Envelope.Payload))
		}), refusal.BadSignature},
		{"the statement is about a report", func(a *attempt) {
			a.statement = append(a.statement, func(s *Statement) { s.PredicateType = PredicateReport })
		}, refusal.PredicateType},
		{
			"the bundle is intended for another runtime",
			func(a *attempt) { a.predicate(func(p *Predicate) { p.Audience.Runtime = "r-18" }) }, refusal.WrongRuntime,
		},
		{
			"the bundle is intended for another cluster with the same runtime ID",
			func(a *attempt) {
				a.predicate(func(p *Predicate) { p.Audience.ClusterUID = "clone" })
			}, refusal.WrongCluster,
		},
		{
			"the bundle has another epoch", func(a *attempt) { a.predicate(func(p *Predicate) { p.Epoch = 2 }) },
			refusal.WrongEpoch,
		},
		{"the bundle has expired", func(a *attempt) { a.now = trusttest.Now.AddDate(0, 1, 0) }, refusal.Expired},
		{
			"a newer bundle was accepted before",
			func(a *attempt) { a.trust.Last.Epoch, a.trust.Last.Sequence = 1, 101 },
			refusal.Rollback,
		},
		{"the config does not match the signed digest", func(a *attempt) {
			a.statement = append(a.statement, func(s *Statement) {
				s.Subject[0] = newSubject("config", digest.FromString("other"))
			})
		}, refusal.WrongDigest},
	}
}

func TestVerifyStopsAtTheFirstFailedCheck(t *testing.T) {
	all := checks(t)
	for i, c := range all {
		t.Run(c.name, func(t *testing.T) {
			a := newAttempt(t)
			c.fault(a)
			_, err := a.verify(t)
			trusttest.WantReason(t, err, c.want)
		})
		t.Run(c.name+", and every later check also fails", func(t *testing.T) {
			a := newAttempt(t)
			for _, later := range all[i:] {
				later.fault(a)
			}
			_, err := a.verify(t)
			trusttest.WantReason(t, err, c.want)
		})
	}
}

func TestVerifyAcceptsOnlyValidBundles(t *testing.T) {
	const day = 24 * time.Hour
	sha := func(text string) digest.Digest { return digest.FromString(text) }
	onManifest := func(a *attempt, change func(*ocispec.Manifest)) { a.manifest = append(a.manifest, change) }
	onStatement := func(a *attempt, change func(*Statement)) { a.statement = append(a.statement, change) }
	onBody := func(a *attempt, change func(string) string) { a.body = append(a.body, change) }
	for _, c := range []struct {
		name   string
		change func(*testing.T, *attempt)
		want   refusal.Reason
	}{
		{"a manifest with exactly the maximum size is accepted", func(_ *testing.T, a *attempt) {
			onBody(a, func(s string) string { return s + strings.Repeat(" ", MaxManifestBytes-len(s)) })
		}, ""},
		{"a manifest one byte larger than the limit is refused", func(_ *testing.T, a *attempt) {
			onBody(a, func(s string) string { return s + strings.Repeat(" ", MaxManifestBytes+1-len(s)) })
		}, refusal.TooLarge},
		{"a response without a media type is refused", func(_ *testing.T, a *attempt) {
			a.response = append(a.response, func(f *Fetched) { f.Descriptor.MediaType = "" })
		}, refusal.MediaType},
		{"a manifest in docker's media type is refused", func(_ *testing.T, a *attempt) {
			a.response = append(a.response, func(f *Fetched) {
				f.Descriptor.MediaType = "application/vnd.docker.distribution.manifest.v2+json"
			})
		}, refusal.MediaType},
		{"a manifest without a media type is refused", func(t *testing.T, a *attempt) {
			onBody(a, replace(t, fmt.Sprintf("%q:%q,", "mediaType", ocispec.MediaTypeImageManifest), ""))
		}, refusal.MediaType},
		{"a manifest with schema version 1 is refused", func(t *testing.T, a *attempt) {
			onBody(a, replace(t, `"schemaVersion":2`, `"schemaVersion":1`))
		}, refusal.MediaType},
		{"a manifest with a subject is refused", func(_ *testing.T, a *attempt) {
			onManifest(a, func(m *ocispec.Manifest) { m.Subject = &ocispec.Descriptor{Digest: sha("x")} })
		}, refusal.Malformed},
		{"a manifest whose config has urls is refused", func(_ *testing.T, a *attempt) {
			onManifest(a, func(m *ocispec.Manifest) { m.Config.URLs = []string{"https://elsewhere.example"} })
		}, refusal.Malformed},
		{"a manifest with two layers is refused", func(_ *testing.T, a *attempt) {
			onManifest(a, func(m *ocispec.Manifest) { m.Layers = append(m.Layers, m.Layers[0]) })
		}, refusal.MediaType},
		{"a manifest without layers is refused", func(_ *testing.T, a *attempt) {
			onManifest(a, func(m *ocispec.Manifest) { m.Layers = nil })
		}, refusal.MediaType},
		{"a manifest with a layer of another type is refused", func(_ *testing.T, a *attempt) {
			onManifest(a, func(m *ocispec.Manifest) { m.Layers[0].MediaType = MediaTypeDesiredState })
		}, refusal.MediaType},
		{"a config with a declared size above the limit is refused", func(_ *testing.T, a *attempt) {
			onManifest(a, func(m *ocispec.Manifest) { m.Config.Size = MaxDocumentBytes + 1 })
		}, refusal.TooLarge},
		{"a catalog of negative size is refused", func(_ *testing.T, a *attempt) {
			onManifest(a, func(m *ocispec.Manifest) { m.Layers[0].Size = -1 })
		}, refusal.TooLarge},
		{"an empty manifest is refused", func(_ *testing.T, a *attempt) {
			onBody(a, func(string) string { return "" })
		}, refusal.Malformed},
		{"null instead of a manifest is refused", func(_ *testing.T, a *attempt) {
			onBody(a, func(string) string { return "null" })
		}, refusal.MediaType},
		{"unsigned foreign annotations are refused", func(_ *testing.T, a *attempt) {
			onManifest(a, func(m *ocispec.Manifest) { m.Annotations["org.example"] = "x" })
		}, refusal.Malformed},

		{"an unsigned bundle is refused", func(_ *testing.T, a *attempt) {
			onManifest(a, func(m *ocispec.Manifest) { m.Annotations = nil })
		}, refusal.Unsigned},
		{"a bundle whose attestation is empty is refused", func(_ *testing.T, a *attempt) {
			a.attestation = append(a.attestation, func(string) string { return "" })
		}, refusal.Unsigned},
		{"a bundle whose attestation is too large is refused", func(_ *testing.T, a *attempt) {
			a.attestation = append(a.attestation, func(s string) string {
				return s + strings.Repeat(" ", MaxAttestationBytes)
			})
		}, refusal.TooLarge},
		{"an attestation without a signature is refused", func(_ *testing.T, a *attempt) {
			a.envelope = append(a.envelope, func(at *attestation) { at.Envelope.Signatures = nil })
		}, refusal.Malformed},
		{"an empty signature is refused", func(_ *testing.T, a *attempt) {
			a.envelope = append(a.envelope, func(at *attestation) { at.Envelope.Signatures[0].Sig = nil })
		}, refusal.BadSignature},
		{"an attestation without a key hint is refused", func(_ *testing.T, a *attempt) {
			a.envelope = append(a.envelope, func(at *attestation) { at.VerificationMaterial.PublicKey.Hint = "" })
		}, refusal.UnknownKey},
		{"a signature that does not match the hinted key is refused", func(t *testing.T, a *attempt) {
			hint := trusttest.Thumbprint(t, a.signer)
			a.signer = trusttest.NewSigner(t)
			a.envelope = append(a.envelope, func(at *attestation) { at.VerificationMaterial.PublicKey.Hint = hint })
		}, refusal.BadSignature},
		{"a payload that was changed after signing is refused", func(_ *testing.T, a *attempt) {
			a.envelope = append(a.envelope, func(at *attestation) {
				at.Envelope.Payload[len(at.Envelope.Payload)/2] ^= 1
			})
		}, refusal.BadSignature},
		{"a signature of the payload without its type is refused", func(t *testing.T, a *attempt) {
			a.envelope = append(a.envelope, func(at *attestation) {
				raw, err := a.signer.SignMessage(strings.NewReader(string(at.Envelope.Payload)))
				if err != nil {
					t.Fatal(err)
				}
				at.Envelope.Signatures[0].Sig = raw
			})
		}, refusal.BadSignature},
		{"an attestation with a certificate is refused", func(t *testing.T, a *attempt) {
			a.attestation = append(a.attestation, replace(t, `"publicKey":`, `"certificate":{},"publicKey":`))
		}, refusal.Malformed},
		{"a root without keys accepts no bundle", func(_ *testing.T, a *attempt) {
			a.trust.Root = trust.Root{Epoch: a.trust.Root.Epoch, Expires: a.trust.Root.Expires}
		}, refusal.UnknownKey},

		{"a statement of another version is refused", func(_ *testing.T, a *attempt) {
			onStatement(a, func(s *Statement) { s.Type = "https://in-toto.io/Statement/v0.1" })
		}, refusal.PredicateType},
		{"a signed payload that is not JSON is refused", func(_ *testing.T, a *attempt) {
			a.payload = append(a.payload, func(string) string { return "hello" })
		}, refusal.Malformed},
		{"a signed empty payload is refused", func(_ *testing.T, a *attempt) {
			a.payload = append(a.payload, func(string) string { return "" })
		}, refusal.Malformed},
		{"an audience without a runtime is refused", func(_ *testing.T, a *attempt) {
			a.predicate(func(p *Predicate) { p.Audience.Runtime = "" })
			a.trust.Runtime = ""
		}, refusal.WrongRuntime},
		{"an audience without a cluster matches every cluster of the runtime", func(_ *testing.T, a *attempt) {
			a.predicate(func(p *Predicate) { p.Audience.ClusterUID = "" })
		}, ""},
		{"a runtime that does not know its cluster ignores the audience's cluster", func(_ *testing.T, a *attempt) {
			a.trust.ClusterUID = ""
		}, ""},
		{"a bundle for another agent's key is refused", func(_ *testing.T, a *attempt) {
			a.predicate(func(p *Predicate) { p.Audience.KeyThumbprint = "other" })
			a.trust.KeyThumbprint = "mine"
		}, refusal.WrongCluster},
		{"a bundle for this agent's key is accepted", func(_ *testing.T, a *attempt) {
			a.predicate(func(p *Predicate) { p.Audience.KeyThumbprint = "mine" })
			a.trust.KeyThumbprint = "mine"
		}, ""},
		{
			"an epoch older than the root's epoch is refused",
			func(_ *testing.T, a *attempt) { a.trust.Root.Epoch = 2 },
			refusal.WrongEpoch,
		},

		{"a bundle is accepted until just before it expires", func(_ *testing.T, a *attempt) {
			a.now = samplePredicate().ExpiresAt.Add(-1)
		}, ""},
		{
			"a bundle is refused at the moment it expires",
			func(_ *testing.T, a *attempt) { a.now = samplePredicate().ExpiresAt }, refusal.Expired,
		},
		{"a bundle issued slightly ahead of the clock is accepted", func(_ *testing.T, a *attempt) {
			a.now = samplePredicate().IssuedAt.Add(-trust.MaxClockSkew)
		}, ""},
		{"a bundle issued beyond the allowed clock skew is refused", func(_ *testing.T, a *attempt) {
			a.now = samplePredicate().IssuedAt.Add(-trust.MaxClockSkew - 1)
		}, refusal.NotYetIssued},
		{"a runtime can allow a larger clock skew", func(_ *testing.T, a *attempt) {
			a.now, a.trust.ClockSkew = samplePredicate().IssuedAt.Add(-3*day), 3*day
		}, ""},
		{"a runtime can allow a smaller clock skew", func(_ *testing.T, a *attempt) {
			a.now, a.trust.ClockSkew = samplePredicate().IssuedAt.Add(-time.Hour-1), time.Hour
		}, refusal.NotYetIssued},
		{"a clock that was set back does not accept an expired bundle", func(_ *testing.T, a *attempt) {
			a.trust.Last.NewestTime = samplePredicate().ExpiresAt
		}, refusal.Expired},
		{
			"a clock that is ahead accepts no new bundle",
			func(_ *testing.T, a *attempt) { a.now = trusttest.Now.AddDate(0, 6, 0) }, refusal.Expired,
		},
		{"a clock beyond the root's expiry accepts no new bundle", func(_ *testing.T, a *attempt) {
			a.now = trusttest.Now.AddDate(10, 0, 0)
			a.predicate(func(p *Predicate) { p.ExpiresAt = trusttest.Now.AddDate(20, 0, 0) })
		}, refusal.RootExpired},
		{"a clock that starts in 1970 uses the latest verified time", func(_ *testing.T, a *attempt) {
			a.now = time.Unix(0, 0)
			a.trust.Last.NewestTime = trusttest.Now.Add(-day)
		}, ""},
		{"a bundle without a time of issue is refused", func(_ *testing.T, a *attempt) {
			a.predicate(func(p *Predicate) { p.IssuedAt = time.Time{} })
		}, refusal.Malformed},
		{"a bundle that expires when it is issued is refused", func(_ *testing.T, a *attempt) {
			a.predicate(func(p *Predicate) { p.ExpiresAt = p.IssuedAt })
		}, refusal.Malformed},

		{"the next sequence is accepted", func(_ *testing.T, a *attempt) {
			a.trust.Last = Accepted{Epoch: 1, Sequence: 99, Digest: sha("99")}
		}, ""},
		{"the same sequence with the same digest is accepted", func(t *testing.T, a *attempt) {
			// Signatures differ each time, so the test creates the bundle only once.
			fetched := a.fetched(t)
			a.response = append(a.response, func(f *Fetched) { *f = fetched })
			a.trust.Last = Accepted{Epoch: 1, Sequence: 100, Digest: fetched.Descriptor.Digest}
		}, ""},
		{"the same statement in another manifest is the same bundle", func(t *testing.T, a *attempt) {
			// The same signature can be encoded in several ways.
			first, err := a.verify(t)
			if err != nil {
				t.Fatal(err)
			}
			a.trust.Last = first.Accepted
		}, ""},
		{"an expired root accepts no new bundle", func(_ *testing.T, a *attempt) {
			a.trust.Root.Expires = trusttest.Now
		}, refusal.RootExpired},
		{"the same sequence with a different digest is refused", func(_ *testing.T, a *attempt) {
			a.trust.Last = Accepted{Epoch: 1, Sequence: 100, Digest: sha("100")}
		}, refusal.Equivocation},
		{"an older sequence is refused", func(_ *testing.T, a *attempt) {
			a.trust.Last = Accepted{Epoch: 1, Sequence: 101, Digest: sha("101")}
		}, refusal.Rollback},
		{"a sequence of zero is refused", func(_ *testing.T, a *attempt) {
			a.predicate(func(p *Predicate) { p.Sequence = 0 })
		}, refusal.Malformed},
		{"a negative sequence is refused", func(_ *testing.T, a *attempt) {
			a.predicate(func(p *Predicate) { p.Sequence = -1 })
		}, refusal.Malformed},
		{"a new epoch restarts the sequence", func(_ *testing.T, a *attempt) {
			a.trust.Root.Epoch = 2
			a.predicate(func(p *Predicate) { p.Epoch, p.Sequence = 2, 1 })
			a.trust.Last = Accepted{Epoch: 1, Sequence: 5000, Digest: sha("5000")}
		}, ""},
		{"a new epoch does not decrease the verified time", func(_ *testing.T, a *attempt) {
			a.trust.Root.Epoch = 2
			a.predicate(func(p *Predicate) { p.Epoch, p.Sequence = 2, 1 })
			a.trust.Last = Accepted{Epoch: 1, Sequence: 5000, NewestTime: samplePredicate().ExpiresAt}
		}, refusal.Expired},

		{"swapped subjects are refused", func(_ *testing.T, a *attempt) {
			onStatement(a, func(s *Statement) { s.Subject[0], s.Subject[1] = s.Subject[1], s.Subject[0] })
		}, refusal.WrongDigest},
		{"a missing subject is refused", func(_ *testing.T, a *attempt) {
			onStatement(a, func(s *Statement) { s.Subject = s.Subject[:1] })
		}, refusal.WrongDigest},
		{"a statement without subjects is refused", func(_ *testing.T, a *attempt) {
			onStatement(a, func(s *Statement) { s.Subject = nil })
		}, refusal.WrongDigest},
		{"a statement with an additional subject is refused", func(_ *testing.T, a *attempt) {
			onStatement(a, func(s *Statement) { s.Subject = append(s.Subject, s.Subject[0]) })
		}, refusal.WrongDigest},
		{"a subject with two digests is refused", func(_ *testing.T, a *attempt) {
			onStatement(a, func(s *Statement) { s.Subject[0].Digest["sha512"] = strings.Repeat("0", 128) })
		}, refusal.WrongDigest},
		{"a subject without a sha256 does not match a blob without a digest", func(_ *testing.T, a *attempt) {
			onStatement(a, func(s *Statement) {
				s.Subject[0].Digest = map[string]string{"sha512": strings.Repeat("0", 128)}
			})
			onManifest(a, func(m *ocispec.Manifest) { m.Config.Digest = "" })
		}, refusal.WrongDigest},
		{"an invalid digest is refused although it is signed", func(_ *testing.T, a *attempt) {
			onStatement(a, func(s *Statement) { s.Subject[0].Digest = map[string]string{"sha256": "../../etc"} })
			onManifest(a, func(m *ocispec.Manifest) { m.Config.Digest = "sha256:../../etc" })
		}, refusal.WrongDigest},
		{"another config in the manifest is refused", func(_ *testing.T, a *attempt) {
			onManifest(a, func(m *ocispec.Manifest) { m.Config.Digest = sha("other") })
		}, refusal.WrongDigest},
		{"another catalog in the manifest is refused", func(_ *testing.T, a *attempt) {
			onManifest(a, func(m *ocispec.Manifest) { m.Layers[0].Digest = sha("other") })
		}, refusal.WrongDigest},
		{"a subject's name does not matter", func(_ *testing.T, a *attempt) {
			onStatement(a, func(s *Statement) { s.Subject[0].Name = "" })
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAttempt(t)
			c.change(t, a)
			_, err := a.verify(t)
			trusttest.WantReason(t, err, c.want)
		})
	}
}
