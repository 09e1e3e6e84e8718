package controlplane

import (
	"context"
	"fmt"
	"regexp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/web/access"
)

const maxLeases = 500

// publishersLease matches the names of publishers' Leases. With --watch-label-selector, the name ends with a digest of
// the selector.
var publishersLease = regexp.MustCompile(`^` + regexp.QuoteMeta(controller.LeaseName) + `(-[0-9a-f]{8})?$`)

// rootExpires returns the expiry of the root of trust, or the zero time if it is unknown. Publishers record the expiry
// in an annotation of their Leases.
func rootExpires(ctx context.Context, api client.Reader, namespace string) (time.Time, error) {
	leases := &metav1.PartialObjectMetadataList{}
	leases.SetGroupVersionKind(schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "LeaseList"})
	err := api.List(ctx, leases, client.InNamespace(namespace), client.Limit(maxLeases))
	if access.IsUnreadable(err) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("list Leases in %s: %w", namespace, err)
	}
	var notes []fleet.RootNote
	for i := range leases.Items {
		lease := &leases.Items[i]
		text, is := lease.Annotations[v1beta2.AnnotationRootOfTrust]
		if !is || !publishersLease.MatchString(lease.Name) {
			continue
		}
		if note, err := fleet.ParseRootNote(text); err == nil {
			notes = append(notes, note)
		}
	}
	return fleet.NewestRoot(notes), nil
}
