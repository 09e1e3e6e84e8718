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

// mayNotDelete returns why an object is not deleted to be recreated, and the fix; empty if it may be deleted. It runs
// before anything is deleted, so that no version ends half applied.
func mayNotDelete(m *v1beta2.Manifest, by guard.Owner, live *metav1.PartialObjectMetadata, k key) string {
	switch {
	case live == nil:
		return ""
	case guard.IsShared(k, by.Namespace) || guard.Protected(k, by.Namespace) != "":
		return "is not recreated, for the runtime needs it: keep the fields as they are"
	case render.Keeps(live):
		return "is not recreated, for it has the annotation helm.sh/resource-policy: keep: keep the fields as they " +
			"are, or remove that annotation from it in the runtime"
	case !by.Owns(live):
		return fmt.Sprintf(
			"is not recreated, for this module did not make it%s: rename it in the module, delete it, or hand it "+
				"over with the annotation %s=%s",
			guard.Whose(live),
			v1beta2.AnnotationAdopt,
			by.Mark,
		)
	case wasRecreated(m, live.UID):
		return fmt.Sprintf(
			"is not recreated again, for it was recreated for this version before: publish another version, or "+
				"remove the annotation %s from the Manifest",
			v1beta2.AnnotationRecreated,
		)
	}
	return ""
}

// wasRecreated reports whether objects were deleted for the Manifest's version, and other objects exist now. This
// prevents repeated deletions of an object that cannot be created.
func wasRecreated(m *v1beta2.Manifest, uid types.UID) bool {
	noted := strings.Fields(m.Annotations[v1beta2.AnnotationRecreated])
	return len(noted) > 0 && noted[0] == wantedDigest(m) && !slices.Contains(noted[1:], string(uid))
}

// noteRecreation writes down, before it is done, which objects are deleted for a version.
func (i *Installer) noteRecreation(ctx context.Context, m *v1beta2.Manifest, uids []types.UID) error {
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

// wantedDigest identifies the version that a Manifest requests.
func wantedDigest(m *v1beta2.Manifest) string {
	text, err := json.Marshal(m.Wanted())
	if err != nil {
		return ""
	}
	return digest.FromBytes(text).Encoded()
}
