package v1beta2

// Names that Kyma's lifecycle-manager uses on objects in runtimes beyond this API, and names of the takeover from it.
const (
	// AnnotationOwnedByDeprecated names the Manifest of an object. lifecycle-manager uses it instead of
	// AnnotationOwnedBy.
	AnnotationOwnedByDeprecated = "deprecated-" + AnnotationOwnedBy
	// AnnotationInherited is specific to kyma-pull: on a Manifest in a runtime, a digest of the objects that its module
	// inherited from lifecycle-manager. They are then in the Manifest's inventory, and ownership marks of
	// lifecycle-manager on them are valid.
	AnnotationInherited = "kyma-pull.dev/inherited"
	// AnnotationKymas is specific to kyma-pull: on a Manifest in a runtime, the runtime's Kyma in the control plane and
	// the Kymas that handed the runtime over, as NAMESPACE/NAME separated by commas. Marks of lifecycle-manager on
	// objects contain the name of the Kyma.
	AnnotationKymas = "kyma-pull.dev/kymas"
	// AnnotationReleased is specific to kyma-pull: "true" on a Manifest in a runtime whose module is returned to
	// lifecycle-manager. The Manifest stays, and lifecycle-manager owns the agent's fields of its objects again.
	AnnotationReleased = "kyma-pull.dev/released"
	// ReasonLeftoverRemoved is the reason of Events on a runtime's Kyma that name the removed leftovers of
	// lifecycle-manager.
	ReasonLeftoverRemoved = "LeftoverRemoved"
	// FieldManagerApplier is the field manager with which lifecycle-manager applies the objects of modules.
	FieldManagerApplier = "declarative.kyma-project.io/applier"
)

// LifecycleManagerFieldManagers returns the field managers that versions of lifecycle-manager use in runtimes. It omits
// names that other programs use too.
func LifecycleManagerFieldManagers() []string {
	return []string{
		FieldManagerApplier, "resource.kyma-project.io/finalizer", "lifecycle-manager", Group + "/lifecycle-manager",
		"catalog-sync", "kyma-sync-context",
	}
}
