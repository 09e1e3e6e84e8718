package follow

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RecordName is the ConfigMap that says which commit KCP has and what came of it.
const RecordName = "kyma-pull-git"

// Fields of the record.
const (
	fieldRepository = "repository"
	fieldRevision   = "revision"
	fieldPath       = "path"
	fieldCommit     = "commit"
	fieldAuthor     = "author"
	fieldTime       = "time"
	fieldSignedBy   = "signedBy"
	fieldReady      = "ready"
	fieldMessage    = "message"
	fieldInventory  = "inventory"
)

// record is the ConfigMap as it was read or is to be written.
type record struct{ corev1.ConfigMap }

func (f *Follower) readRecord(ctx context.Context) (*record, error) {
	r := &record{}
	err := f.Reader.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: RecordName}, &r.ConfigMap)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", f.Namespace, RecordName, err)
	}
	if r.Data == nil {
		r.Data = map[string]string{}
	}
	return r, nil
}

// write makes the record say something, and writes nothing when it does already.
func (f *Follower) write(ctx context.Context, r *record, fields map[string]string) error {
	before := maps.Clone(r.Data)
	maps.Copy(r.Data, fields)
	maps.DeleteFunc(r.Data, func(_, value string) bool { return value == "" })
	var err error
	switch {
	case r.UID == "":
		r.ObjectMeta = metav1.ObjectMeta{Namespace: f.Namespace, Name: RecordName}
		err = f.Client.Create(ctx, &r.ConfigMap)
	case !maps.Equal(before, r.Data):
		err = f.Client.Update(ctx, &r.ConfigMap)
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", f.Namespace, RecordName, err)
	}
	return nil
}

// encodeInventory writes one object per line, "Kind.group name", sorted, so that people can read it.
func encodeInventory(keys []Key) string {
	lines := make([]string, 0, len(keys))
	for _, key := range keys {
		lines = append(lines, key.Kind.String()+" "+key.Name)
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

// decodeInventory reads it again. What cannot be read is an error: an inventory with a hole would leave objects behind.
func decodeInventory(text string) ([]Key, error) {
	var keys []Key
	for line := range strings.Lines(text) {
		kind, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		key := Key{schema.ParseGroupKind(kind), name}
		if !ok || name == "" || cmp.Or(key.Kind.Kind, key.Kind.Group) == "" {
			return nil, fmt.Errorf("inventory: line %q is no kind and name", line)
		}
		keys = append(keys, key)
	}
	return keys, nil
}
