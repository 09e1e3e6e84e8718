package bundle

import (
	"fmt"
	"testing"

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

// BenchmarkNextRoot measures one update of the root of trust, signed by two of three holders.
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
