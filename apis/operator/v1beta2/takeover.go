package v1beta2

// Labels and annotations on a Kyma in the control plane whose runtime is taken over from lifecycle-manager, and names
// that lifecycle-manager uses in the control plane.
const (
	// LabelTakeover on a Kyma is TakeoverActive during the takeover. After the takeover, it is TakeoverFinished as long
	// as lifecycle-manager runs. Such a Kyma also has LabelSkipReconciliation. In combination with LabelTakeover,
	// LabelSkipReconciliation stops only lifecycle-manager and not the publisher.
	LabelTakeover = "kyma-pull.dev/takeover"
	// TakeoverActive and TakeoverFinished are the values of LabelTakeover.
	TakeoverActive   = "true"
	TakeoverFinished = "finished"
	// AnnotationTakeoverPhase is the takeover phase on a Kyma with LabelTakeover. In "adopt", the default, the agent
	// adopts modules. In "clean", it removes lifecycle-manager's leftovers. In "release", it returns the modules to
	// lifecycle-manager.
	AnnotationTakeoverPhase = "kyma-pull.dev/takeover-phase"
	// ReasonTakeover is the reason for Events on a Kyma that describe the progress of its takeover.
	ReasonTakeover = "Takeover"

	// LifecycleManagerFinalizerPurge is the finalizer that lifecycle-manager versions before 1.21 set on Kymas.
	LifecycleManagerFinalizerPurge = Group + "/purge-finalizer"
	// LifecycleManagerFinalizerResource and LifecycleManagerFinalizerLabels are finalizers that lifecycle-manager sets
	// on its Manifests in the control plane, in addition to FinalizerManifest.
	LifecycleManagerFinalizerResource = "resource.kyma-project.io/finalizer"
	LifecycleManagerFinalizerLabels   = "label-removal-finalizer"
	// LifecycleManagerFinalizerWatcher is the finalizer that lifecycle-manager sets on Watchers.
	// LifecycleManagerFinalizerMandatory is the finalizer on mandatory modules' ModuleReleaseMetas, and in older
	// versions on ModuleTemplates.
	LifecycleManagerFinalizerWatcher   = Group + "/watcher"
	LifecycleManagerFinalizerMandatory = Group + "/mandatory-module"
)

// LifecycleManagerConditions are the Kyma conditions that only lifecycle-manager writes.
var LifecycleManagerConditions = []string{"CRDsSync", "SKRImagePullSecretSync"}

// TakenOver reports whether a Kyma is being or was taken over from lifecycle-manager.
func TakenOver(kyma *Kyma) bool {
	value := kyma.Labels[LabelTakeover]
	return value == TakeoverActive || value == TakeoverFinished
}

// TakeoverStatus is the state of a takeover from lifecycle-manager.
type TakeoverStatus struct {
	// Modules lists the modules that lifecycle-manager had installed at the start of the takeover.
	// +optional
	// +listType=map
	// +listMapKey=name
	Modules []InheritedModule `json:"modules,omitempty"`
	// Heard is true once a report contains the spec of the runtime's own Kyma and confirms that the runtime applied a
	// bundle for this takeover.
	// +optional
	Heard bool `json:"heard,omitempty"`
	// Published is the takeover phase in the latest bundle.
	// +optional
	Published string `json:"published,omitempty"`
	// Done is the takeover phase that the runtime has completed.
	// +optional
	Done string `json:"done,omitempty"`
	// Removed lists lifecycle-manager's leftovers that the runtime removed.
	// +optional
	Removed []string `json:"removed,omitempty"`
	// Message is the reported problem that blocks the current phase.
	// +optional
	Message string `json:"message,omitempty"`
}

// InheritedModule is a module that lifecycle-manager installed.
type InheritedModule struct {
	Name string `json:"name"`
	// Version is the version that lifecycle-manager installed.
	Version string `json:"version"`
	// Channel is the channel that the version was resolved from.
	// +optional
	Channel string `json:"channel,omitempty"`
	// Adopted is true once the runtime has reported that its agent manages the module.
	// +optional
	Adopted bool `json:"adopted,omitempty"`
	// Unmanaged is true if lifecycle-manager did not manage the module's objects at the start of the takeover.
	// +optional
	Unmanaged bool `json:"unmanaged,omitempty"`
	// Objects lists the objects that lifecycle-manager installed for the module. It is empty once the module is
	// adopted.
	// +optional
	// +listType=atomic
	Objects []Resource `json:"objects,omitempty"`
}
