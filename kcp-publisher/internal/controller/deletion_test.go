package controller

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/reconcile"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

func TestDeletedKymaDoesNotWaitForALongCatalogChange(t *testing.T) {
	c := &Catalog{Changes: withoutEvent()}
	k := &Kymas{Catalog: c, Rollouts: &Rollouts{Catalog: c}, Watchers: &Watchers{}}
	now := metav1.Now()
	kept, deleted := &v1beta2.Kyma{}, &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}
	if k.lastBundleView(deleted) != nil {
		t.Error("a deleted Kyma does not wait for the first catalog without a change")
	}
	release := c.Hold()
	defer release()
	if k.lastBundleView(deleted) != nil {
		t.Error("a deleted Kyma does not wait for a change that has just begun")
	}
	c.changeStart.Store(time.Now().Add(-reconcile.HoldTimeout).UnixNano())
	if k.lastBundleView(kept) != nil || k.currentView() != nil {
		t.Error("a Kyma without deletion timestamp is resolved during a change")
	}
	view := k.lastBundleView(deleted)
	if view == nil {
		t.Fatal("a deleted Kyma waits for a long change")
	}
	result := resolve.Resolve(resolve.Request{IsDeleting: true}, view.Catalog, nil)
	if s := result.State; len(s.Manifests)+len(s.Offers)+len(s.Watchers)+len(result.Catalog.ModuleTemplates) != 0 {
		t.Errorf("the last bundle is not empty: %+v", s)
	}
	before := &plan.View{Catalog: view.Catalog}
	k.Rollouts.view.Store(before)
	if k.lastBundleView(deleted) != before {
		t.Error("the view from before the change is not used")
	}
}
