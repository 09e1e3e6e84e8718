package objects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// Restorer restores a deleted Kyma and deleted Manifests. It stores copies of them in a Secret. It is not safe for
// concurrent use.
type Restorer struct {
	// Client can read from a cache. Uncached must read from the API server.
	Client, Uncached client.Client
	// Signer signs the Secret and the Manifests' records with the agent's key. The Restorer ignores a Secret that this
	// key did not sign.
	Signer trust.Signer
	// Revisions contains the revisions of the Manifests' records. It can be nil.
	Revisions *record.Revisions
	// Inventories contains the Manifests' inventories. It can be nil.
	Inventories *record.Inventories

	memory agentMemory
	// saved is the Secret's content. It is nil if this process has not read or written the Secret.
	saved  []byte
	loaded bool
	// restoredVersions identifies the Kyma and the Manifests at the last successful call to Restore. restoredBundle is
	// the bundle in this call. Restore does nothing while both are unchanged.
	restoredVersions string
	restoredBundle   *bundle.Bundle
}

func (k *Restorer) recordStore() record.Store {
	return record.Store{Signer: k.Signer, Revisions: k.Revisions}
}

// observe returns the memory, updated from the runtime's current Kyma and Manifests.
func (k *Restorer) observe(kyma *v1beta2.Kyma, manifests []v1beta2.Manifest, b *bundle.Bundle) agentMemory {
	return k.memory.observe(k.recordStore(), k.Inventories, kyma, manifests, b)
}

// Restore restores deleted Manifests with their inventories, and the runtime's Kyma with its last spec. If another
// client deletes a Manifest, Restore keeps the module's objects and creates the Manifest again. b is the last accepted
// bundle, or nil.
//
// Restore returns the names of the restored objects. The error joins the errors from all failed steps.
func (k *Restorer) Restore(ctx context.Context, b *bundle.Bundle) (restored []string, err error) {
	if err := k.loadMemory(ctx); err != nil {
		return nil, err
	}
	kyma, manifests, err := k.readAll(ctx)
	if err != nil {
		return nil, err
	}
	there := readVersions(kyma, manifests)
	if k.restoredVersions == there && k.restoredBundle == b {
		return nil, nil
	}
	k.restoredVersions = ""
	if b != nil && b.Statement.Predicate.Deleting {
		// The control plane removes the Kyma, so drop its spec from the memory.
		saved := k.saveMemory(ctx, agentMemory{Manifests: k.observe(nil, manifests, b).Manifests})
		todo := k.memory.planRecovery(nil, manifests, b)
		restored, err := k.restoreManifests(ctx, todo.restore)
		return restored, errors.Join(saved, err, k.restoreInventories(ctx, todo.unfinished))
	}
	// If the Secret cannot be written, for example because of a quota, continue with this process's memory.
	problems := []error{k.saveMemory(ctx, k.observe(kyma, manifests, b))}
	todo := k.memory.planRecovery(kyma, manifests, b)
	if todo.createKyma {
		made, err := k.restoreKyma(ctx, b)
		if made {
			restored = append(restored, "Kyma "+v1beta2.RuntimeKymaName)
		}
		problems = append(problems, err)
	}
	for i := range todo.release {
		problems = append(problems, k.removeFinalizer(ctx, &todo.release[i]))
	}
	made, err := k.restoreManifests(ctx, todo.restore)
	restored = append(restored, made...)
	problems = append(problems, err, k.restoreInventories(ctx, todo.unfinished))
	err = errors.Join(problems...)
	if err == nil && todo.isEmpty() {
		k.restoredVersions, k.restoredBundle = there, b
	}
	return restored, err
}

func (k *Restorer) restoreManifests(ctx context.Context, all []savedManifest) (restored []string, _ error) {
	var problems []error
	for _, manifest := range all {
		made, err := k.restoreManifest(ctx, manifest)
		if made {
			restored = append(restored, "Manifest "+manifest.Name)
		}
		problems = append(problems, err)
	}
	return restored, errors.Join(problems...)
}

// UnremovedModules returns the modules that a bundle removes but that the agent has not started to remove. Their
// Manifests can be missing. b can be nil.
func (k *Restorer) UnremovedModules(b *bundle.Bundle) []string {
	if k == nil {
		return nil
	}
	return k.memory.unremovedModules(b)
}

// readVersions returns a string with the names, UIDs and resource versions of the runtime's Kyma and Manifests. The
// string changes if one of these objects changes.
func readVersions(kyma *v1beta2.Kyma, manifests []v1beta2.Manifest) string {
	versions := []string{"seen"} // ensure that the result is not empty, even without objects
	for i := range manifests {
		versions = append(versions, manifests[i].Name+" "+string(manifests[i].UID)+" "+manifests[i].ResourceVersion)
	}
	slices.Sort(versions[1:])
	if kyma != nil {
		versions = append(versions, "Kyma "+string(kyma.UID)+" "+kyma.ResourceVersion)
	}
	return strings.Join(versions, "\n")
}

// readAll returns the runtime's Kyma and Manifests from the cache. The Kyma is nil if it does not exist. Callers must
// not modify the Manifests.
func (k *Restorer) readAll(ctx context.Context) (*v1beta2.Kyma, []v1beta2.Manifest, error) {
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

// restoreKyma creates the runtime's Kyma. It returns false if the Kyma already exists.
func (k *Restorer) restoreKyma(ctx context.Context, b *bundle.Bundle) (bool, error) {
	var labels, annotations map[string]string
	if b != nil {
		labels, annotations = b.State.Kyma.Labels, b.State.Kyma.Annotations
	}
	kyma := k.memory.restoredKyma(labels, annotations)
	return k.createObject(ctx, kyma, "Kyma")
}

// restoreManifest creates a Manifest and restores its inventory before the installer reconciles it. Without the
// inventory, a later removal would not delete any objects.
func (k *Restorer) restoreManifest(ctx context.Context, known savedManifest) (bool, error) {
	manifest := known.manifest().DeepCopy()
	r := k.recordStore().Read(manifest)
	r.Restoring, r.Removal, r.Unmanaged = true, "", false
	if err := k.recordStore().Set(manifest, r); err != nil {
		return false, fmt.Errorf("restore Manifest %s/%s: %w", namespace, known.Name, err)
	}
	made, err := k.createObject(ctx, manifest, "Manifest")
	if err != nil {
		return false, err
	}
	if made {
		return true, k.restoreInventory(ctx, manifest, known.Synced)
	}
	return k.restoreExisting(ctx, known)
}

// restoreOne restores a Manifest that was deleted after the last call to Restore. It returns false if the memory does
// not contain the Manifest. A Manifest that is created without the memory would have no inventory, so an upgrade or a
// removal would not delete the installed version's objects.
func (k *Restorer) restoreOne(ctx context.Context, name string) (known bool, err error) {
	if k == nil {
		return false, nil
	}
	if err := k.loadMemory(ctx); err != nil {
		return false, err
	}
	manifest := k.memory.findManifest(name)
	if manifest == nil || manifest.RemovalUID != "" {
		return false, nil
	}
	_, err = k.restoreManifest(ctx, *manifest)
	return true, err
}

// ListRestorable returns the Manifests that Restore creates again if another client deletes them.
func (k *Restorer) ListRestorable() []v1beta2.Manifest {
	if k == nil {
		return nil
	}
	var manifests []v1beta2.Manifest
	for _, known := range k.memory.Manifests {
		manifests = append(manifests, *known.manifest())
	}
	return manifests
}

// restoreInventories restores the inventories for Manifests that exist in the cluster.
func (k *Restorer) restoreInventories(ctx context.Context, all []savedManifest) error {
	var problems []error
	for _, known := range all {
		_, err := k.restoreExisting(ctx, known)
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// restoreExisting restores an existing Manifest's inventory. It returns false if the inventory was already restored.
func (k *Restorer) restoreExisting(ctx context.Context, known savedManifest) (bool, error) {
	manifest := &v1beta2.Manifest{}
	if err := k.Uncached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: known.Name}, manifest); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if !record.ReadUnverified(manifest).Restoring {
		return false, nil // the inventory is restored; the cached Manifest is outdated
	}
	return true, k.restoreInventory(ctx, manifest, known.Synced)
}

// restoreInventory writes a Manifest's inventory. It then clears the field Restoring in the Manifest's record, so that
// the installer reconciles the Manifest. An empty list does not change the inventory.
func (k *Restorer) restoreInventory(ctx context.Context, manifest *v1beta2.Manifest, list []v1beta2.Resource) error {
	before := manifest.DeepCopy()
	if len(list) > 0 {
		manifest.Status.Synced = list
	}
	manifest.Status.State = v1beta2.StateProcessing
	if err := k.Uncached.Status().Patch(ctx, manifest, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("restore status of Manifest %s/%s: %w", namespace, manifest.Name, err)
	}
	err := k.recordStore().Update(ctx, k.Uncached, k.Uncached, manifest, func(r *record.Record) { r.Restoring = false })
	if err != nil {
		return fmt.Errorf("restore Manifest %s/%s: %w", namespace, manifest.Name, err)
	}
	return nil
}

// createObject creates an object. It returns false if the object already exists.
func (k *Restorer) createObject(ctx context.Context, object client.Object, kind string) (bool, error) {
	err := k.Uncached.Create(ctx, object, client.FieldOwner(fieldOwner))
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("restore %s %s/%s: %w", kind, object.GetNamespace(), object.GetName(), err)
	}
	return true, nil
}

// removeFinalizer removes the finalizer from a Manifest that another client deleted. The module's objects stay.
func (k *Restorer) removeFinalizer(ctx context.Context, m *v1beta2.Manifest) error {
	before := m
	m = m.DeepCopy()
	controllerutil.RemoveFinalizer(m, v1beta2.FinalizerManifest)
	// With the optimistic lock, the patch fails if the agent requests the module's removal at the same time.
	err := k.Uncached.Patch(ctx, m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) && !meta.IsNoMatchError(err) {
		return fmt.Errorf("remove the finalizer of Manifest %s/%s, which is being deleted: %w", namespace, m.Name, err)
	}
	return nil
}

// recordRemoval records in the memory that a bundle removes a Manifest. Callers must call it before they delete the
// Manifest. recordRemoval ignores an error from saving the memory, because the Manifest's record also contains the
// removal.
func (k *Restorer) recordRemoval(ctx context.Context, m *v1beta2.Manifest) error {
	if k == nil {
		return nil
	}
	if err := k.loadMemory(ctx); err != nil {
		return err
	}
	_ = k.saveMemory(ctx, k.memory.withRemoval(m.Name, m.UID))
	return nil
}

// clearRemoval reverts recordRemoval: it records that the bundle does not remove the Manifest. Like recordRemoval, it
// ignores an error from saving the memory.
func (k *Restorer) clearRemoval(ctx context.Context, m *v1beta2.Manifest) error {
	if k == nil {
		return nil
	}
	if err := k.loadMemory(ctx); err != nil {
		return err
	}
	_ = k.saveMemory(ctx, k.memory.withRemoval(m.Name, ""))
	return nil
}
