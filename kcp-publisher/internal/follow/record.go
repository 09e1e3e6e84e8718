package follow

import (
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
	// fieldApplying is the commit that is being applied, and absent when none is.
	fieldApplying = "applying"
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

// maxInventoryBytes is less than a ConfigMap may hold; 20,000 Kymas called by UUIDs need 740 kB.
const maxInventoryBytes = 900 << 10

// encodeInventory writes one kind per line, "Kind.group name name", sorted, so that people can read it.
func encodeInventory(keys []Key) (string, error) {
	names := map[string][]string{}
	for _, key := range keys {
		names[key.Kind.String()] = append(names[key.Kind.String()], key.Name)
	}
	var lines []string
	for _, kind := range slices.Sorted(maps.Keys(names)) {
		slices.Sort(names[kind])
		lines = append(lines, kind+" "+strings.Join(slices.Compact(names[kind]), " "))
	}
	text := strings.Join(lines, "\n")
	if len(text) > maxInventoryBytes {
		return "", fmt.Errorf("the names of its objects take %d bytes, at most %d: use fewer or shorter ones", len(text), maxInventoryBytes)
	}
	return text, nil
}

// decodeInventory reads it again. What cannot be read is an error: an inventory with a hole would leave objects behind.
func decodeInventory(text string) ([]Key, error) {
	var keys []Key
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			return nil, fmt.Errorf("inventory: line %q is no kind with names", line)
		}
		kind := schema.ParseGroupKind(fields[0])
		for _, name := range fields[1:] {
			keys = append(keys, Key{kind, name})
		}
	}
	return keys, nil
}
