package publish

import (
	"context"
	"errors"
	"fmt"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// Newest returns a runtime's latest bundle without publishing another one, or nil if it found no valid bundle.
func (p *Publisher) Newest(ctx context.Context, record *Record, runtime plan.Runtime) (*plan.PublishedBundle, error) {
	if err := trust.CheckRuntimeID(runtime.ID); err != nil {
		return nil, err
	}
	adopted, _, err := p.adoptBundle(ctx, record, runtime, p.keys.Load())
	if err != nil {
		return nil, err
	}
	return adopted.KeptBundle(), nil
}

// Renew pushes a runtime's last bundle again with a later expiry if a renewal is due. The modules in the bundle do not
// change. It returns the runtime's latest bundle, or nil if it found no valid bundle.
func (p *Publisher) Renew(
	ctx context.Context, record *Record, runtime plan.Runtime,
) (newest *plan.PublishedBundle, pushed bool, err error) {
	keys := p.keys.Load()
	if err := p.checkFit(keys); err != nil {
		return nil, false, fmt.Errorf("renew the bundle of runtime %s: %w", runtime.ID, err)
	}
	adopted, _, err := p.adoptBundle(ctx, record, runtime, keys)
	if err != nil {
		return nil, false, err
	}
	last := adopted.KeptBundle()
	if last == nil || adopted.Deviation != nil || adopted.IsUnrecorded(runtime.RecordedBundle) {
		return last, false, nil
	}
	next, needed := plan.RenewBundle(adopted, runtime, keys.Root, max(p.Validity, runtime.Validity), p.Now())
	if !needed {
		return last, false, nil
	}
	documents, err := p.readDocuments(ctx, runtime.ID, last)
	if err == nil {
		resolved := &resolution{
			result: resolve.Result{State: last.State, Versions: last.Versions}, documents: documents,
		}
		newest, err = p.pushBundle(ctx, record, runtime.ID, keys, resolved, next, last, nil)
	}
	if errors.Is(err, errTagChanged) || errors.Is(err, errKeysReplaced) {
		record.RequestCheck()
		return last, false, nil // the next reconcile retries
	}
	if err != nil {
		return nil, false, fmt.Errorf("renew the bundle of runtime %s: %w", runtime.ID, err)
	}
	return newest, true, nil
}

func (p *Publisher) readDocuments(
	ctx context.Context, runtime string, last *plan.PublishedBundle,
) (documents bundle.Documents, err error) {
	repository, err := p.Place.Repository(ctx, bundle.DesiredRepository(runtime))
	if err != nil {
		return documents, err
	}
	documents.State.Descriptor, documents.Catalog.Descriptor = last.StateBlob, last.CatalogBlob
	if documents.State.Bytes, err = store.FetchBlob(ctx, repository, last.StateBlob,
		bundle.MaxDocumentBytes); err != nil {
		return documents, err
	}
	documents.Catalog.Bytes, err = store.FetchBlob(ctx, repository, last.CatalogBlob, bundle.MaxDocumentBytes)
	return documents, err
}
