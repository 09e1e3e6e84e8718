package record

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func manifest() *v1beta2.Manifest {
	return &v1beta2.Manifest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kyma-system", Name: "keda", UID: "1"},
		Spec:       v1beta2.ManifestSpec{Version: "1.0.0"},
	}
}

// complete returns a record in which each field has a value.
func complete() Record {
	return Record{
		Applied:   &AppliedVersion{Version: "1.0.0", Digest: "sha256:a", InProgress: "sha256:b"},
		Recreated: &Recreated{Version: "a", Objects: []types.UID{"x", "y"}},
		CompletedJobs: &CompletedJobs{
			Version: "sha256:a", Jobs: []string{"a/<b>"}, Pods: []string{"a/c"}, Started: []string{"a/d"},
		},
		Inherited: "sha256:c", Removal: "1", Unmanaged: true, Restoring: true, Released: true,
	}
}

func TestRecordRoundTripKeepsAllFields(t *testing.T) {
	book, m := Store{Signer: trusttest.NewSigner(t)}, manifest()
	require.Equal(t, Record{}, book.Read(m))
	require.NoError(t, book.Set(m, complete()))
	require.Equal(t, complete(), book.Read(m))
	require.Equal(t, complete(), ReadUnverified(m))
	require.True(t, book.HasRemoval(m) && book.IsUnmanaged(m))
	text := m.Annotations[v1beta2.AnnotationRecord]
	require.NoError(t, book.Set(m, complete()))
	require.Equal(t, text, m.Annotations[v1beta2.AnnotationRecord], "an unchanged record must keep its signature")
	m.UID = "2"
	require.False(t, book.HasRemoval(m), "the removal of a former Manifest must have no effect")
	require.NoError(t, book.Set(m, Record{}))
	require.Empty(t, m.Annotations)
}

func TestUnsignedRecordCanOnlyRestrictAgent(t *testing.T) {
	book := Store{Signer: trusttest.NewSigner(t)}
	of := func(by Store, change func(*v1beta2.Manifest)) *v1beta2.Manifest {
		m := manifest()
		require.NoError(t, by.Set(m, complete()))
		change(m)
		return m
	}
	replace := func(old, with string) func(*v1beta2.Manifest) {
		return func(m *v1beta2.Manifest) {
			text := m.Annotations[v1beta2.AnnotationRecord]
			m.Annotations[v1beta2.AnnotationRecord] = strings.Replace(text, old, with, 1)
			require.NotEqual(t, text, m.Annotations[v1beta2.AnnotationRecord])
		}
	}
	asIs := func(*v1beta2.Manifest) {}
	for name, m := range map[string]*v1beta2.Manifest{
		"key of another agent":       of(Store{Signer: trusttest.NewSigner(t)}, asIs),
		"no signature":               of(Store{}, asIs),
		"changed record":             of(book, replace(`"begun"`, ` "begun"`)),
		"changed signature":          of(book, replace(`"signature":"`, `"signature":"A`)),
		"record of another Manifest": of(book, func(m *v1beta2.Manifest) { m.Name = "nats" }),
	} {
		want := complete()
		want.Applied.Unconfirmed, want.Inherited, want.Removal, want.Unmanaged = true, "", "", false
		require.Equal(t, want, book.Read(m), name)
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1beta2.AnnotationUnmanaged, v1beta2.True)
		require.False(t, book.HasRemoval(m) || book.IsUnmanaged(m), name)
		require.NoError(t, book.Set(m, book.Read(m)), name)
		require.Equal(t, want, book.Read(m), "%s: a new signature must not confirm the applied version", name)
	}
	require.False(t, Store{}.HasRemoval(of(Store{}, asIs)), "without a key, no record has a valid signature")
}

func TestUnreadableRecordIsReadAsEmpty(t *testing.T) {
	book := Store{Signer: trusttest.NewSigner(t)}
	for name, text := range map[string]string{
		"no JSON": "{", "no record": `{"signature":"YQ=="}`, "record of another type": `{"record":{"applied":"1.0.0"}}`,
		"too large": fmt.Sprintf(`{"record":{"removal":"1","inherited":%q}}`, strings.Repeat("a", maxTextBytes)),
	} {
		m := manifest()
		m.Annotations = map[string]string{v1beta2.AnnotationRecord: text, formerInherited: "sha256:a"}
		require.Equal(t, Record{}, book.Read(m), name)
		require.Equal(t, Record{}, ReadUnverified(m), name)
		require.Equal(t, "1.0.0", RunningVersion(m), name)
	}
}

func TestLargeRecordOmitsImagesAndIsLimited(t *testing.T) {
	book, m := Store{Signer: trusttest.NewSigner(t)}, manifest()
	r := Record{Applied: &AppliedVersion{Version: "1.0.0", Images: strings.Repeat("a", maxRecordBytes)}}
	require.NoError(t, book.Set(m, r))
	require.Equal(t, &AppliedVersion{Version: "1.0.0", ImagesOmitted: true}, book.Read(m).Applied)
	text := m.Annotations[v1beta2.AnnotationRecord]
	r.Inherited = strings.Repeat("a", maxRecordBytes)
	require.ErrorContains(t, book.Set(m, r), "record of Manifest kyma-system/keda: ")
	require.Equal(t, text, m.Annotations[v1beta2.AnnotationRecord], "a refused record must not replace the known one")
}

// formerSignature signs the applied version as agent version 0.1.0 did.
func (b Store) formerSignature(t *testing.T, m *v1beta2.Manifest) string {
	t.Helper()
	text := "kyma-pull applied version v1\n" + m.Namespace + "/" + m.Name + "\n" + m.Annotations[formerApplied]
	signature, err := b.Signer.SignMessage(strings.NewReader(text))
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(signature)
}

func TestVersion010AnnotationsAreReadUntilFirstChange(t *testing.T) {
	book := Store{Signer: trusttest.NewSigner(t)}
	m := manifest()
	m.Annotations = map[string]string{
		formerApplied:   `{"version":"1.0.0","install":{"name":"a","source":{"ref":"b"}},"digest":"sha256:a"}`,
		formerRecreated: "a x y", formerCompletedJobs: "sha256:a a/b c/d", formerInherited: "sha256:c",
		formerRemoval: "true", formerRestoring: "true", formerReleased: "true", "example.org/team": "a",
	}
	m.Annotations[formerAppliedSignature] = book.formerSignature(t, m)
	want := Record{
		Applied: &AppliedVersion{
			Version: "1.0.0", Digest: "sha256:a",
			Install: v1beta2.InstallInfo{Name: "a", Source: runtime.RawExtension{Raw: []byte(`{"ref":"b"}`)}},
		},
		Recreated:     &Recreated{Version: "a", Objects: []types.UID{"x", "y"}},
		CompletedJobs: &CompletedJobs{Version: "sha256:a", Jobs: []string{"a/b", "c/d"}},
		Inherited:     "sha256:c", Restoring: true, Released: true,
	}
	require.Equal(t, want, book.Read(m), "the removal is not signed, so a bundle must request it again")
	require.True(t, HasUnverifiedRemoval(m))
	other := Store{Signer: trusttest.NewSigner(t)}
	require.True(t, other.Read(m).Applied.Unconfirmed)
	require.Empty(t, other.Read(m).Inherited, "without a signature, any client can write the inherited objects")

	want.Restoring = false
	require.NoError(t, book.Set(m, want))
	require.Equal(t, want, book.Read(m))
	require.Len(t, m.Annotations, 2, "the record must replace the former annotations")
}

// Runtimes store the digest of a version, so it must never change.
func TestRequestedVersionDigestIsStable(t *testing.T) {
	m := manifest()
	m.Spec.Install = v1beta2.InstallInfo{Name: "raw-manifest", Source: runtime.RawExtension{Raw: []byte(`{"ref":"b"}`)}}
	require.Equal(t, "sha256:3750ec274a59d030d461b3f1e50d27d82905b9da8d794731b4114a34e134a5bd", RequestedVersion(m).Digest)
}

func TestConcurrentChangesToARecordAreKept(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, v1beta2.AddToScheme(scheme))
	m, requests := manifest(), 0
	cluster := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(m).Build(), interceptor.Funcs{
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption,
		) error {
			requests++
			return c.Patch(ctx, o, p, options...)
		},
	})
	ctx, book := t.Context(), Store{Signer: trusttest.NewSigner(t)}
	read := func() *v1beta2.Manifest {
		found := &v1beta2.Manifest{}
		require.NoError(t, cluster.Get(ctx, client.ObjectKeyFromObject(m), found))
		return found
	}
	first, second, third := read(), read(), read()
	require.NoError(t, book.Update(ctx, cluster, nil, first, func(r *Record) { r.Removal = "1" }))
	require.Equal(t, 1, requests)
	require.NoError(t, book.Update(ctx, cluster, nil, first, func(r *Record) { r.Removal = "1" }))
	require.Equal(t, 1, requests, "an unchanged record must not be written")

	require.ErrorContains(t, book.Update(ctx, cluster, nil, second, func(r *Record) { r.Released = true }),
		"object was modified")
	require.NoError(t, book.Update(ctx, cluster, cluster, third, func(r *Record) { r.Released = true }))
	want := Record{Removal: "1", Released: true}
	require.Equal(t, want, book.Read(read()))
	require.Equal(t, want, book.Read(third))
}

// at returns a copy of a Manifest with a later resource version and these annotations.
func at(m *v1beta2.Manifest, version string, annotations map[string]string) *v1beta2.Manifest {
	m = m.DeepCopy()
	m.ResourceVersion, m.Annotations = version, annotations
	return m
}

func TestEarlierRecordOnlyRestrictsTheAgent(t *testing.T) {
	signer := trusttest.NewSigner(t)
	book, m := Store{Signer: signer, Revisions: NewRevisions()}, manifest()
	m.ResourceVersion = "10"
	write := func(version string, r Record) map[string]string {
		t.Helper()
		require.NoError(t, book.Set(m, r))
		m.ResourceVersion = version
		require.Equal(t, r, book.Read(m))
		return maps.Clone(m.Annotations)
	}
	removal := write("11", complete())
	upgraded := Record{Applied: &AppliedVersion{Version: "2.0.0", Digest: "sha256:d"}}
	write("12", upgraded)
	cleared := write("13", Record{})
	former := map[string]string{formerApplied: `{"version":"0.9.0","digest":"sha256:a"}`, formerInherited: "sha256:c"}
	formerly := at(m, "14", former)
	formerly.Annotations[formerAppliedSignature] = book.formerSignature(t, formerly)

	check := func(what string, book Store) {
		t.Helper()
		for name, earlier := range map[string]*v1beta2.Manifest{
			"removal": at(m, "14", removal), "annotations of version 0.1.0": formerly,
		} {
			got := book.Read(earlier)
			require.True(t, got.Applied.Unconfirmed && got.Inherited == "" && got.Removal == "" && !got.Unmanaged,
				"%s, %s: got %+v", what, name, got)
			require.False(t, book.HasRemoval(earlier) || book.IsUnmanaged(earlier))
			require.True(t, book.IsEarlier(earlier))
		}
		require.Equal(t, Record{}, book.Read(at(m, "14", cleared)), what)
	}
	check("same process", book)
	require.Equal(t, complete(), book.Read(at(m, "11", removal)), "an object from a delayed cache must stay valid")
	restarted := Store{Signer: signer, Revisions: NewRevisions()}
	restarted.Revisions.Restore(m, book.Revisions.Of(m))
	check("after a restart", restarted)

	replayed := at(m, "14", removal)
	require.NoError(t, restarted.Set(replayed, upgraded))
	replayed.ResourceVersion = "15"
	require.Equal(t, upgraded, restarted.Read(replayed), "a new record must be valid again")
	other := manifest()
	other.Name, other.ResourceVersion = "other", "1"
	require.NoError(t, restarted.Set(other, complete()))
	require.Equal(t, complete(), restarted.Read(other), "records of other Manifests have their own revisions")
}

func TestForgedRevisionIsNotRemembered(t *testing.T) {
	book, m := Store{Signer: trusttest.NewSigner(t), Revisions: NewRevisions()}, manifest()
	m.ResourceVersion = "10"
	require.NoError(t, book.Set(m, complete()))
	forged := m.DeepCopy()
	text := forged.Annotations[v1beta2.AnnotationRecord]
	forged.Annotations[v1beta2.AnnotationRecord] = strings.Replace(text, `"revision":1`, `"revision":9000000000`, 1)
	require.NotEqual(t, text, forged.Annotations[v1beta2.AnnotationRecord])
	require.False(t, book.HasRemoval(forged))
	require.Equal(t, complete(), book.Read(m))
}
