package v1beta2

// What Kyma's lifecycle-manager writes on objects in runtimes, beside what it shares with this API, and what the agent
// notes of taking them over.
const (
	// AnnotationOwnedByDeprecated names the Manifest that an object came with. It took the place of AnnotationOwnedBy in
	// lifecycle-manager.
	AnnotationOwnedByDeprecated = "deprecated-" + AnnotationOwnedBy
	// AnnotationInherited is ours: on a Manifest in a runtime, a digest of the objects that its module inherited from
	// lifecycle-manager. They are in the Manifest's list from then on, and what lifecycle-manager's mark says of them
	// counts.
	AnnotationInherited = "kyma-pull.dev/inherited"
	// AnnotationReleased is ours: "true" on a Manifest in a runtime whose module is given back to lifecycle-manager: it
	// stays, and the fields of its objects that were ours are lifecycle-manager's again.
	AnnotationReleased = "kyma-pull.dev/released"
	// ReasonLeftoverRemoved is that of Events on a runtime's Kyma that name what was removed of lifecycle-manager.
	ReasonLeftoverRemoved = "LeftoverRemoved"
	// FieldManagerApplier is the one by which lifecycle-manager applies the objects of modules.
	FieldManagerApplier = "declarative.kyma-project.io/applier"
)

// LifecycleManagerFieldManagers returns the names under which versions of lifecycle-manager own fields of objects in
// runtimes. A name that other programs have as well is not among them.
func LifecycleManagerFieldManagers() []string {
	return []string{
		FieldManagerApplier, "resource.kyma-project.io/finalizer", "lifecycle-manager", Group + "/lifecycle-manager", "catalog-sync", "kyma-sync-context",
	}
}
