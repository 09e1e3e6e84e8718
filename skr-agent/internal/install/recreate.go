package install

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
)

// mayNotDelete returns the reason why an object must not be recreated, with the fix. It returns "" if the object can
// be recreated.
func mayNotDelete(m *v1beta2.Manifest, by guard.Owner, live *metav1.PartialObjectMetadata, k key) string {
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
		return fmt.Sprintf(
			"is not recreated again because it was already recreated for this version: publish another version, "+
				"or remove the annotation %s from the Manifest",
			v1beta2.AnnotationRecreated,
		)
	}
	return ""
}

// wasRecreated reports whether the object was already recreated for the Manifest's version, because an object must
// not be deleted repeatedly.
func wasRecreated(m *v1beta2.Manifest, uid types.UID) bool {
	noted := strings.Fields(m.Annotations[v1beta2.AnnotationRecreated])
	return len(noted) > 0 && noted[0] == wantedDigest(m) && !slices.Contains(noted[1:], string(uid))
}

// recordRecreation records the UIDs of the objects that will be deleted for a version.
func (i *Installer) recordRecreation(ctx context.Context, m *v1beta2.Manifest, uids []types.UID) error {
	note := []string{wantedDigest(m)}
	if noted := strings.Fields(m.Annotations[v1beta2.AnnotationRecreated]); len(noted) > 0 && noted[0] == note[0] {
		note = noted
	}
	for _, uid := range uids {
		if !slices.Contains(note[1:], string(uid)) {
			note = append(note, string(uid))
		}
	}
	text := strings.Join(note, " ")
	if len(note) == 1 || m.Annotations[v1beta2.AnnotationRecreated] == text {
		return nil
	}
	before := m.DeepCopy()
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1beta2.AnnotationRecreated, text)
	if err := i.cluster.Patch(ctx, m, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("record the recreated objects: %w", err)
	}
	return nil
}

// wantedDigest returns the digest of the requested version.
func wantedDigest(m *v1beta2.Manifest) string {
	text, err := json.Marshal(m.RequestedVersion())
	if err != nil {
		return ""
	}
	return digest.FromBytes(text).Encoded()
}
