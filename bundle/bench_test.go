package bundle

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func modules(tb testing.TB, n int) Documents {
	tb.Helper()
	state, err := DecodeDesiredState(sampleDocuments(tb).State.Bytes)
	if err != nil {
		tb.Fatal(err)
	}
	one := state.Manifests[0]
	state.Manifests = nil
	for i := range n {
		m := one
		m.Name, m.Module = fmt.Sprintf("%s-%d", one.Name, i), fmt.Sprintf("%s-%d", one.Module, i)
		state.Manifests = append(state.Manifests, m)
	}
	documents, err := NewDocuments(state, Catalog{})
	if err != nil {
		tb.Fatal(err)
	}
	return documents
}

func BenchmarkSign(b *testing.B) {
	documents, signer, predicate := modules(b, 20), trusttest.NewSigner(b), samplePredicate()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compose(documents, predicate, signer); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	for _, n := range []int{1, 20, MaxManifests} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			a := newAttempt(b)
			a.documents = modules(b, n)
			fetched := a.fetched(b)
			b.ReportAllocs()
			for b.Loop() {
				verified, err := Verify(fetched, a.trust, a.now)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := verified.Open(a.documents.State.Bytes, a.documents.Catalog.Bytes); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNextRoot verifies one update of the root of trust, signed by two of its three root keys.
func BenchmarkNextRoot(b *testing.B) {
	m := trusttest.NewRootFixture(b)
	first := m.First()
	data := m.After(first, trusttest.NoChange, m.Keys[:2]...)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := first.Next(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyReport(b *testing.B) {
	signer := trusttest.NewSigner(b)
	report := sampleReport()
	report.Modules = nil
	report.Kyma = &ReportedKyma{Generation: 1, State: v1beta2.StateReady}
	for i := range 20 {
		name := fmt.Sprintf("module-%02d", i)
		object := &v1beta2.TrackingObject{
			TypeMeta:    metav1.TypeMeta{APIVersion: "operator.kyma-project.io/v1beta2", Kind: "Manifest"},
			PartialMeta: v1beta2.PartialMeta{Name: name, Namespace: "kyma-system", Generation: 1},
		}
		report.Modules = append(report.Modules, ReportedModule{
			Name: name, Channel: "regular", Version: "1.0.0", State: v1beta2.StateReady, Manifest: object, Resource: object,
		})
		report.Kyma.Spec.Modules = append(report.Kyma.Spec.Modules, v1beta2.Module{Name: name, Managed: true})
	}
	fetched := response(b, report, signer)
	from := Reporter{Runtime: trusttest.Runtime, Key: trusttest.PublicKey(b, signer)}
	b.ReportAllocs()
	b.SetBytes(int64(len(fetched.Bytes)))
	for b.Loop() {
		if _, err := VerifyReport(fetched, from); err != nil {
			b.Fatal(err)
		}
	}
}
