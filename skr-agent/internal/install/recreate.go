package install

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// recordRecreation records the UIDs of the objects that the agent is about to delete for a version.
func (i *Installer) recordRecreation(ctx context.Context, m *v1beta2.Manifest, uids []types.UID) error {
	next := record.Recreated{Version: planning.WantedDigest(m)}
	known := record.Claims(m).Recreated
	if known != nil && known.Version == next.Version {
		next.Objects = slices.Clone(known.Objects)
	}
	before := len(next.Objects)
	for _, uid := range uids {
		if !slices.Contains(next.Objects, uid) {
			next.Objects = append(next.Objects, uid)
		}
	}
	if len(next.Objects) == before {
		return nil
	}
	err := i.records.Update(ctx, i.cluster, nil, m, func(r *record.Record) { r.Recreated = &next })
	if err != nil {
		return fmt.Errorf("record the recreated objects: %w", err)
	}
	return nil
}
