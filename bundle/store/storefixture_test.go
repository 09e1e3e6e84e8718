package store

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func storedDocuments(tb testing.TB) bundle.Documents {
	tb.Helper()
	documents, err := bundle.NewDocuments(
		bundle.DesiredState{
			Kyma: bundle.KymaSeed{Labels: map[string]string{"team": "a"}, Spec: v1beta2.KymaSpec{Channel: "regular"}},
		},
		bundle.Catalog{
			ModuleTemplates: []bundle.CatalogEntry{
				{Name: "keda-1.8.0", Spec: json.RawMessage(`{"moduleName":"keda","version":"1.8.0"}`)},
			},
		},
	)
	if err != nil {
		tb.Fatal(err)
	}
	return documents
}

func pushBundle(ctx context.Context, place Store, documents bundle.Documents, manifest bundle.Blob) error {
	if err := PlaceDocuments(ctx, place, trusttest.Runtime, documents, nothingPresent); err != nil {
		return err
	}
	return PushBundleManifest(ctx, place, trusttest.Runtime, manifest)
}

func storedPredicate() bundle.Predicate {
	return bundle.Predicate{
		Audience: bundle.Audience{Runtime: trusttest.Runtime}, Epoch: 1, Sequence: 100,
		IssuedAt: trusttest.Now.Add(-time.Hour), ExpiresAt: trusttest.Now.AddDate(0, 0, 7), RootVersion: 1,
	}
}
