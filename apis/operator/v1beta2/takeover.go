package v1beta2

// What says on the Kyma in the control plane that its runtime is taken over from lifecycle-manager, and what
// lifecycle-manager has there.
const (
	// LabelTakeover is ours: TakeoverActive on a Kyma that is being taken over, TakeoverFinished on one that was, for as
	// long as lifecycle-manager runs. The publisher goes on with such a Kyma although LabelSkipReconciliation, which keeps
	// lifecycle-manager from it, is on it too.
	LabelTakeover = "kyma-pull.dev/takeover"
	// TakeoverActive and TakeoverFinished are the values of LabelTakeover.
	TakeoverActive   = "true"
	TakeoverFinished = "finished"
	// AnnotationTakeoverPhase is ours: on a Kyma that is being taken over, which has LabelTakeover, the phase: "adopt"
	// while the agent adopts modules, "clean" while it removes what lifecycle-manager left, "release" while it gives the
	// modules back. Without the annotation the phase is "adopt".
	AnnotationTakeoverPhase = "kyma-pull.dev/takeover-phase"
	// ReasonTakeover is that of Events on a Kyma that tell how far its runtime is taken over.
	ReasonTakeover = "Takeover"

	// LifecycleManagerFinalizerPurge is what lifecycle-manager before 1.21 put on Kymas.
	LifecycleManagerFinalizerPurge = Group + "/purge-finalizer"
	// LifecycleManagerFinalizerResource and LifecycleManagerFinalizerLabels are on its Manifests in the control plane,
	// beside FinalizerManifest.
	LifecycleManagerFinalizerResource = "resource.kyma-project.io/finalizer"
	LifecycleManagerFinalizerLabels   = "label-removal-finalizer"
	// LifecycleManagerFinalizerWatcher is on its Watchers, LifecycleManagerFinalizerMandatory on ModuleReleaseMetas,
	// formerly ModuleTemplates, of mandatory modules.
	LifecycleManagerFinalizerWatcher   = Group + "/watcher"
	LifecycleManagerFinalizerMandatory = Group + "/mandatory-module"
)

// LifecycleManagerConditions are those of a Kyma that only lifecycle-manager writes.
var LifecycleManagerConditions = []string{"CRDsSync", "SKRImagePullSecretSync"}

// TakenOver reports whether a Kyma is being taken over from lifecycle-manager, or was.
func TakenOver(kyma *Kyma) bool {
	value := kyma.Labels[LabelTakeover]
	return value == TakeoverActive || value == TakeoverFinished
}

// TakeoverStatus is what is remembered of a runtime that is taken over from lifecycle-manager.
type TakeoverStatus struct {
	// Modules are those that lifecycle-manager had installed when the control plane looked first.
	// +optional
	// +listType=map
	// +listMapKey=name
	Modules []InheritedModule `json:"modules,omitempty"`
	// Heard says that the runtime has reported a bundle of this takeover, and with it what its own Kyma asks for.
	// +optional
	Heard bool `json:"heard,omitempty"`
	// Published is the phase that the newest bundle names.
	// +optional
	Published string `json:"published,omitempty"`
	// Done is the phase that the runtime has completed.
	// +optional
	Done string `json:"done,omitempty"`
	// Removed are leftovers of lifecycle-manager that the runtime removed.
	// +optional
	Removed []string `json:"removed,omitempty"`
	// Message is what the runtime says to be in the way of the phase.
	// +optional
	Message string `json:"message,omitempty"`
}

// InheritedModule is a module that lifecycle-manager installed.
type InheritedModule struct {
	Name string `json:"name"`
	// Version is the one that lifecycle-manager installed.
	Version string `json:"version"`
	// Channel is the one that it came by.
	// +optional
	Channel string `json:"channel,omitempty"`
	// Adopted says that the runtime has reported the module as its agent's.
	// +optional
	Adopted bool `json:"adopted,omitempty"`
	// Unmanaged says that lifecycle-manager had left the module's objects to their users.
	// +optional
	Unmanaged bool `json:"unmanaged,omitempty"`
	// Objects are those that lifecycle-manager installed of it, until it is adopted.
	// +optional
	// +listType=atomic
	Objects []Resource `json:"objects,omitempty"`
}
