package v1beta2

// Additional names that Kyma's lifecycle-manager uses on objects in runtimes, and names that the takeover from
// lifecycle-manager uses.
const (
	// AnnotationOwnedByDeprecated identifies the Manifest that an object belongs to. lifecycle-manager sets it instead
	// of AnnotationOwnedBy.
	AnnotationOwnedByDeprecated = "deprecated-" + AnnotationOwnedBy
	// AnnotationKymas on a Manifest in a runtime lists the runtime's Kyma in the control plane and the Kymas that owned
	// the runtime before, as NAMESPACE/NAME separated by commas. Objects that lifecycle-manager installed have an
	// annotation with a value that begins with one of these Kymas.
	AnnotationKymas = "kyma-pull.dev/kymas"
	// ReasonLeftoverRemoved is the reason for an Event on a runtime's Kyma: the agent removed lifecycle-manager's
	// leftovers. The message names them.
	ReasonLeftoverRemoved = "LeftoverRemoved"
	// FieldManagerApplier is the field manager that lifecycle-manager uses to apply module objects.
	FieldManagerApplier = "declarative.kyma-project.io/applier"
)

// LifecycleManagerFieldManagers returns the field managers that versions of lifecycle-manager use in runtimes. It omits
// field managers that other programs also use.
func LifecycleManagerFieldManagers() []string {
	return []string{
		FieldManagerApplier, "resource.kyma-project.io/finalizer", "lifecycle-manager", Group + "/lifecycle-manager",
		"catalog-sync", "kyma-sync-context",
	}
}
