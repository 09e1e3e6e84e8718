package install

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// mayNotDelete returns the reason why the agent must not delete an object to create it again, and the fix. It returns
// "" if the agent can delete the object.
func mayNotDelete(m *v1beta2.Manifest, by guard.Owner, live *metav1.PartialObjectMetadata, k guard.Key) string {
	switch {
	case live == nil:
		return ""
	case guard.IsShared(k, by.Namespace) || guard.Protected(k, by.Namespace) != "":
		return "is not recreated because the runtime needs it: do not change its immutable fields"
	case render.Keeps(live):
		return "is not recreated because of its annotation helm.sh/resource-policy=keep: do not change its immutable " +
			"fields, or remove this annotation in the runtime"
	case !by.Owns(live):
		return fmt.Sprintf(
			"is not recreated because it does not belong to this module%s: rename it in the module, delete it, or "+
				"hand it over with the annotation %s=%s",
			guard.Whose(live),
			v1beta2.AnnotationAdopt,
			by.Mark,
		)
	case wasRecreated(m, live.UID):
		return "is not recreated again because it was already recreated for this version: publish another version"
	}
	return ""
}

// wasRecreated reports whether the agent has already recreated an object for the Manifest's version. The agent
// recreates an object only once per version, so that it does not delete the object repeatedly.
func wasRecreated(m *v1beta2.Manifest, uid types.UID) bool {
	recreated := record.Claims(m).Recreated
	return recreated != nil && recreated.Version == wantedDigest(m) && !slices.Contains(recreated.Objects, uid)
}

// recordRecreation records the UIDs of the objects that the agent is about to delete for a version.
func (i *Installer) recordRecreation(ctx context.Context, m *v1beta2.Manifest, uids []types.UID) error {
	next := record.Recreated{Version: wantedDigest(m)}
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

// wantedDigest returns the digest of the requested version.
func wantedDigest(m *v1beta2.Manifest) string {
	text, err := json.Marshal(record.Requested(m))
	if err != nil {
		return ""
	}
	return digest.FromBytes(text).Encoded()
}
