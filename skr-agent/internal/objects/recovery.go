package objects

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Keeper restores lost objects of the agent, and keeps the state for that in a Secret. It must be used from one
// goroutine.
type Keeper struct {
	// Client may be cached. Uncached is not.
	Client, Uncached client.Client
	// Signer is the agent's own key. A memory in the Secret with another signature is ignored.
	Signer trust.Signer

	memory Memory
	// saved is the stored memory, nil if it is not known.
	saved  []byte
	loaded bool
	// whole identifies the objects and the bundle in force when nothing was missing and the memory was saved. Nothing
	// is missing while they stay the same.
	whole       string
	wholeBundle *bundle.Bundle
}

const (
	// MemorySecret is the Secret with the memory.
	MemorySecret    = "skr-agent-memory"
	memoryData      = "memory.json.gz"
	memorySignature = "signature"
	// maxMemoryBytes leaves room for the rest of a Secret. maxUnpackedBytes limits the unpacked size.
	maxMemoryBytes   = 900 << 10
	maxUnpackedBytes = 64 << 20
	// signedAs separates signatures of memories from other signatures by the same key.
	signedAs = "kyma-pull agent memory v1\n"
)

// Restore restores deleted Manifests with the objects of their modules, and the runtime's Kyma with its admin's
// request. If another client deletes a Manifest, the objects of its module stay and the Manifest is created again. b is
// the bundle in force, nil without one; without a bundle, the reason for a deletion is not known.
//
// It returns its actions. The error names the steps that are still open.
func (k *Keeper) Restore(ctx context.Context, b *bundle.Bundle) (restored []string, err error) {
	if err := k.load(ctx); err != nil {
		return nil, err
	}
	kyma, manifests, err := k.readAll(ctx)
	if err != nil {
		return nil, err
	}
	there := readVersions(kyma, manifests)
	if k.whole == there && k.wholeBundle == b {
		return nil, nil
	}
	k.whole = ""
	if b != nil && b.Statement.Predicate.Deleting {
		// The request ends with the Kyma.
		saved := k.keep(ctx, Memory{Manifests: k.memory.Observe(nil, manifests, b).Manifests})
		return nil, errors.Join(saved, k.finishAll(ctx, k.memory.missing(nil, manifests, b).finish))
	}
	// A memory that is too large, or that a quota refuses, is used as long as this process runs.
	problems := []error{k.keep(ctx, k.memory.Observe(kyma, manifests, b))}
	todo := k.memory.missing(kyma, manifests, b)
	if todo.kyma {
		made, err := k.restoreKyma(ctx, b)
		if made {
			restored = append(restored, "Kyma "+v1beta2.RuntimeKymaName)
		}
		problems = append(problems, err)
	}
	for i := range todo.release {
		problems = append(problems, k.release(ctx, &todo.release[i]))
	}
	for _, manifest := range todo.restore {
		made, err := k.restoreManifest(ctx, manifest)
		if made {
			restored = append(restored, "Manifest "+manifest.Name)
		}
		problems = append(problems, err)
	}
	problems = append(problems, k.finishAll(ctx, todo.finish))
	err = errors.Join(problems...)
	if err == nil && todo.isEmpty() {
		k.whole, k.wholeBundle = there, b
	}
	return restored, err
}

// readVersions identifies the runtime's Kyma and all Manifests with their versions.
func readVersions(kyma *v1beta2.Kyma, manifests []v1beta2.Manifest) string {
	versions := []string{"seen"} // differs from the empty list
	for i := range manifests {
		versions = append(versions, manifests[i].Name+" "+string(manifests[i].UID)+" "+manifests[i].ResourceVersion)
	}
	slices.Sort(versions[1:])
	if kyma != nil {
		versions = append(versions, "Kyma "+string(kyma.UID)+" "+kyma.ResourceVersion)
	}
	return strings.Join(versions, "\n")
}

// readAll returns the runtime's Kyma, nil without one, and all Manifests. The Manifests belong to the cache and must
// not be modified.
func (k *Keeper) readAll(ctx context.Context) (*v1beta2.Kyma, []v1beta2.Manifest, error) {
	kyma := &v1beta2.Kyma{}
	err := k.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v1beta2.RuntimeKymaName}, kyma)
	if apierrors.IsNotFound(err) {
		kyma, err = nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the runtime's Kyma: %w", err)
	}
	var manifests v1beta2.ManifestList
	if err := k.Client.List(ctx, &manifests, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list Manifests: %w", err)
	}
	return kyma, manifests.Items, nil
}

// restoreKyma creates a missing Kyma, and reports whether it was missing.
func (k *Keeper) restoreKyma(ctx context.Context, b *bundle.Bundle) (bool, error) {
	var labels, annotations map[string]string
	if b != nil {
		labels, annotations = b.State.Kyma.Labels, b.State.Kyma.Annotations
	}
	kyma := k.memory.restoredKyma(labels, annotations)
	return k.create(ctx, kyma, "Kyma")
}

// restoreManifest creates a Manifest and restores the list of its module's objects before the installer sees it. An
// upgrade or a removal deletes objects by that list only.
func (k *Keeper) restoreManifest(ctx context.Context, known Remembered) (bool, error) {
	manifest := &v1beta2.Manifest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: known.Name, Labels: known.Labels,
			Annotations: with(known.Annotations, map[string]string{v1beta2.AnnotationRestoring: v1beta2.True}),
		},
		Spec: *known.Spec.DeepCopy(),
	}
	made, err := k.create(ctx, manifest, "Manifest")
	if err != nil {
		return false, err
	}
	if made {
		return true, k.giveList(ctx, manifest, known.Synced)
	}
	return k.finish(ctx, known)
}

// finishAll restores the lists of existing Manifests.
func (k *Keeper) finishAll(ctx context.Context, all []Remembered) error {
	var problems []error
	for _, known := range all {
		_, err := k.finish(ctx, known)
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// finish restores the list of an existing Manifest, and reports whether the list was missing. It creates no Manifest.
func (k *Keeper) finish(ctx context.Context, known Remembered) (bool, error) {
	manifest := &v1beta2.Manifest{}
	if err := k.Uncached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: known.Name}, manifest); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if manifest.Annotations[v1beta2.AnnotationRestoring] != v1beta2.True {
		return false, nil // it exists, and the cache is behind
	}
	return true, k.giveList(ctx, manifest, known.Synced)
}

// giveList writes the list, and then lets the installer see the Manifest. A Manifest without a remembered list keeps
// its own.
func (k *Keeper) giveList(ctx context.Context, manifest *v1beta2.Manifest, list []v1beta2.Resource) error {
	before := manifest.DeepCopy()
	if len(list) > 0 {
		manifest.Status.Synced = list
	}
	manifest.Status.State = v1beta2.StateProcessing
	if err := k.Uncached.Status().Patch(ctx, manifest, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("restore status of Manifest %s/%s: %w", namespace, manifest.Name, err)
	}
	before = manifest.DeepCopy()
	delete(manifest.Annotations, v1beta2.AnnotationRestoring)
	if err := k.Uncached.Patch(ctx, manifest, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("restore Manifest %s/%s: %w", namespace, manifest.Name, err)
	}
	return nil
}

// create creates an object, and reports whether it was missing.
func (k *Keeper) create(ctx context.Context, object client.Object, kind string) (bool, error) {
	err := k.Uncached.Create(ctx, object, client.FieldOwner(FieldOwner))
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("restore %s %s/%s: %w", kind, object.GetNamespace(), object.GetName(), err)
	}
	return true, nil
}

// release deletes a Manifest and keeps its module.
func (k *Keeper) release(ctx context.Context, m *v1beta2.Manifest) error {
	before := m
	m = m.DeepCopy()
	controllerutil.RemoveFinalizer(m, v1beta2.FinalizerManifest)
	// Another client may have marked it, so the version matters.
	err := k.Uncached.Patch(ctx, m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) && !meta.IsNoMatchError(err) {
		return fmt.Errorf("keep the module of Manifest %s/%s, which is being deleted: %w", namespace, m.Name, err)
	}
	return nil
}

// Leave records that a bundle removes a Manifest, before the Manifest is deleted. A memory that cannot be saved does
// not block the removal: the Manifest has a mark too, and Restore saves the memory later and returns the error.
func (k *Keeper) Leave(ctx context.Context, m *v1beta2.Manifest) error {
	if k == nil {
		return nil
	}
	if err := k.load(ctx); err != nil {
		return err
	}
	_ = k.keep(ctx, k.memory.leaving(m.Name, m.UID))
	return nil
}

// Stay records that a Manifest stays. As for Leave, Restore returns the error of a memory that cannot be saved.
func (k *Keeper) Stay(ctx context.Context, m *v1beta2.Manifest) error {
	if k == nil {
		return nil
	}
	if err := k.load(ctx); err != nil {
		return err
	}
	_ = k.keep(ctx, k.memory.leaving(m.Name, ""))
	return nil
}

// Save writes the memory again after its Secret was deleted.
func (k *Keeper) Save(ctx context.Context) error {
	if !k.loaded {
		return nil // the first reader finds no memory
	}
	k.saved, k.whole = nil, ""
	return k.keep(ctx, k.memory)
}

// load reads the memory once. It ignores a damaged memory and one with another signature: installed modules then stay
// only while their Manifests exist.
func (k *Keeper) load(ctx context.Context) error {
	if k.loaded {
		return nil
	}
	var secret corev1.Secret
	err := k.Uncached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: MemorySecret}, &secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read Secret %s/%s: %w", namespace, MemorySecret, err)
	}
	k.loaded = true
	if err != nil {
		return nil //nolint:nilerr // there is none yet
	}
	text, err := k.open(secret.Data)
	if err == nil {
		err = json.Unmarshal(text, &k.memory)
	}
	if err != nil {
		k.memory = Memory{}
		return fmt.Errorf("read Secret %s/%s, which is not followed: %w", namespace, MemorySecret, err)
	}
	k.saved = text
	return nil
}

// keep changes the memory, and writes its Secret if the content differs.
func (k *Keeper) keep(ctx context.Context, next Memory) error {
	k.memory, k.whole = next, ""
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if bytes.Equal(text, k.saved) {
		return nil
	}
	data, err := k.seal(text)
	if err != nil {
		return fmt.Errorf("store the record of the runtime: %w", err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: MemorySecret}, Data: data}
	// An exhausted quota refuses to create even an existing object.
	err = k.Uncached.Update(ctx, secret)
	if apierrors.IsNotFound(err) {
		err = k.Uncached.Create(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("store the record of the runtime: write Secret %s/%s: %w", namespace, MemorySecret, err)
	}
	k.saved = text
	return nil
}

func (k *Keeper) seal(text []byte) (map[string][]byte, error) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(text); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	if packed.Len() > maxMemoryBytes {
		return nil, fmt.Errorf("%d bytes, at most %d", packed.Len(), maxMemoryBytes)
	}
	signature, err := k.Signer.SignMessage(io.MultiReader(bytes.NewReader([]byte(signedAs)),
		bytes.NewReader(packed.Bytes())))
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return map[string][]byte{memoryData: packed.Bytes(), memorySignature: signature}, nil
}

func (k *Keeper) open(data map[string][]byte) ([]byte, error) {
	key, err := k.Signer.PublicKey()
	if err != nil {
		return nil, err
	}
	if !trust.CheckSignature(key, append([]byte(signedAs), data[memoryData]...), data[memorySignature]) {
		return nil, errors.New("it is not signed by this agent's key")
	}
	reader, err := gzip.NewReader(bytes.NewReader(data[memoryData]))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(reader, maxUnpackedBytes+1))
	if err == nil && len(text) > maxUnpackedBytes {
		err = fmt.Errorf("more than %d bytes", maxUnpackedBytes)
	}
	return text, err
}
