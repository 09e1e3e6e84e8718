package follow

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/git"
)

// RecordName is the name of the ConfigMap that records the applied commit and the result of the last poll.
const RecordName = "kyma-pull-git"

const (
	fieldRepository = "repository"
	fieldRevision   = "revision"
	fieldPath       = "path"
	fieldCommit     = "commit"
	fieldAuthor     = "author"
	fieldTime       = "time"
	fieldSignedBy   = "signedBy"
	fieldReady      = "ready"
	fieldReason     = "reason"
	fieldMessage    = "message"
	fieldInventory  = "inventory"
	// fieldApplying is the commit that is being applied. Publishing is stopped while it is set.
	fieldApplying = "applying"
	// fieldWaiting is the commit that waits for approval.
	fieldWaiting = "waiting"
	// fieldHeld is "true" if publishing is stopped until the publisher has read the branch.
	fieldHeld = "held"
	// fieldAdded contains the objects that were created by commits that were never completely applied.
	fieldAdded = "added"
	// fieldApproved contains the encoded shard.Approvals of the current commit.
	fieldApproved = "approved"
)

// record is the ConfigMap with the follower's state.
type record struct{ corev1.ConfigMap }

func (f *Follower) readRecord(ctx context.Context) (*record, error) {
	return readRecord(ctx, f.Reader, f.Namespace)
}

// WhyHeld returns the reason why publishing is stopped in a namespace. It returns "" if publishing is not stopped or if
// the client is not permitted to read the record.
func WhyHeld(ctx context.Context, reader client.Reader, namespace string) (string, error) {
	r, err := readRecord(ctx, reader, namespace)
	switch {
	case apierrors.IsForbidden(err):
		return "", nil
	case err != nil || r.applyingCommit() == "" && r.Data[fieldHeld] == "":
		return "", err
	case r.Data[fieldReady] == string(metav1.ConditionFalse):
		return r.Data[fieldMessage], nil
	}
	return fmt.Sprintf("commit %s is being applied to the control plane", r.applyingCommit()), nil
}

// WaitingCommit returns the commit that waits for approval and the reason. It returns two empty strings if no commit
// waits for approval.
func WaitingCommit(ctx context.Context, reader client.Reader, namespace string) (commit, message string, err error) {
	r, err := readRecord(ctx, reader, namespace)
	if err != nil || r.Data[fieldWaiting] == "" {
		return "", "", err
	}
	return r.Data[fieldWaiting], r.Data[fieldMessage], nil
}

// AllowDeletions approves a waiting commit's deletions.
func AllowDeletions(ctx context.Context, api client.Client, namespace, commit string) error {
	r, err := readRecord(ctx, api, namespace)
	if err != nil {
		return err
	}
	before := r.DeepCopy()
	if r.Annotations == nil {
		r.Annotations = map[string]string{}
	}
	r.Annotations[v1beta2.AnnotationAllowPrune] = commit
	if err := api.Patch(ctx, &r.ConfigMap, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("annotate ConfigMap %s/%s: %w", namespace, RecordName, err)
	}
	return nil
}

func readRecord(ctx context.Context, reader client.Reader, namespace string) (*record, error) {
	r := &record{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: RecordName}, &r.ConfigMap)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", namespace, RecordName, err)
	}
	if r.Data == nil {
		r.Data = map[string]string{}
	}
	return r, nil
}

func (r *record) applyingCommit() string { return r.Data[fieldApplying] }

// isWhole reports whether a commit is the last completely applied commit for the repository and path.
func (r *record) isWhole(repository *git.Repository, commit string) bool {
	return r.Data[fieldCommit] == commit && r.Data[fieldRepository] == repository.URL &&
		r.Data[fieldPath] == repository.Path
}

// lastApplied returns the last completely applied commit.
func (r *record) lastApplied() git.AppliedCommit {
	return git.AppliedCommit{
		Repository: r.Data[fieldRepository], Revision: r.Data[fieldRevision], Commit: r.Data[fieldCommit],
	}
}

func (r *record) inventory() (Inventory, error) {
	var i Inventory
	var err error
	if i.Keys, err = decodeInventory(r.Data[fieldInventory]); err == nil {
		i.Added, err = decodeInventory(r.Data[fieldAdded])
	}
	if err != nil {
		return Inventory{}, fmt.Errorf("ConfigMap %s/%s: %w", r.Namespace, r.Name, err)
	}
	return i, nil
}

func (f *Follower) write(ctx context.Context, r *record, fields map[string]string) error {
	before := r.DeepCopy()
	maps.Copy(r.Data, fields)
	maps.DeleteFunc(r.Data, func(_, value string) bool { return value == "" })
	r.storeApproved(f.approved.Load())
	var err error
	switch {
	case r.UID == "":
		r.ObjectMeta = metav1.ObjectMeta{Namespace: f.Namespace, Name: RecordName}
		err = f.Client.Create(ctx, &r.ConfigMap)
	case !equality.Semantic.DeepEqual(before, &r.ConfigMap):
		err = f.Client.Update(ctx, &r.ConfigMap)
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", f.Namespace, RecordName, err)
	}
	return nil
}

// maxInventoryBytes is the maximum size of the inventory in bytes. It is less than the maximum size of a ConfigMap.
// Approvals can use maxApprovedBytes more, and the part of maxInventoryBytes that the inventory does not use.
const maxInventoryBytes, maxApprovedBytes = 900 << 10, 64 << 10

// encodeInventory returns the inventory as text: one sorted line "Kind.group name name" for each kind.
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
		return "",
			fmt.Errorf("the commit's object names are %d bytes, must be at most %d: use fewer or shorter names",
				len(text), maxInventoryBytes)
	}
	return text, nil
}

// decodeInventory parses the text from encodeInventory. An invalid line is an error, because an incomplete inventory
// would leave objects behind.
func decodeInventory(text string) ([]Key, error) {
	var keys []Key
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			return nil, fmt.Errorf("invalid inventory line %q: must contain a kind, followed by the names of its objects", line)
		}
		kind := schema.ParseGroupKind(fields[0])
		for _, name := range fields[1:] {
			keys = append(keys, Key{kind, name})
		}
	}
	return keys, nil
}
