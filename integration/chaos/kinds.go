package chaos

import "errors"

// errImpossible means that a step could not be executed, for example because mounting volumes is not permitted.
var errImpossible = errors.New("the step cannot be executed")

// Kind is the type of a step: a fault or a user's action.
type Kind string

// Faults.
const (
	KillPublisher   Kind = "kill a publisher"
	KillPlanner     Kind = "kill the publisher that plans a rollout"
	KillAgent       Kind = "kill an agent"
	StopControlAPI  Kind = "stop the control plane's API server"
	StopRuntimeAPI  Kind = "stop a runtime's API server"
	StopRegistry    Kind = "stop the registry"
	SlowRegistry    Kind = "slow the registry down"
	FailRegistry    Kind = "make the registry respond with 5xx"
	LoseAnswers     Kind = "drop the registry's responses to completed requests"
	RefuseWrites    Kind = "make the registry refuse the bundles of a runtime"
	FillRegistry    Kind = "fill the registry's disk"
	FillCache       Kind = "fill the disk of a publisher's component cache"
	LoseBundles     Kind = "lose repositories of the registry"
	RestoreRegistry Kind = "restore an earlier copy of the registry"
	CutRuntime      Kind = "cut a runtime off"
	TakeLease       Kind = "take the publishers' lease"
	DeleteLease     Kind = "delete the publishers' lease"
	HangWay         Kind = "make connections hang"
	ResetWay        Kind = "reset connections"
	SlowWay         Kind = "slow connections down"
	ForgetWay       Kind = "drop open connections silently"
	SetClock        Kind = "set a clock to a wrong time"
	StopPublishers  Kind = "stop all publishers until bundles expire"
	RefuseCommit    Kind = "push a commit that cannot be applied"
	LoseLabel       Kind = "remove the label of a canary"
	HideModule      Kind = "hide a module from the fleet"
	ReplaceCA       Kind = "replace the registry's CA"
)

// Disasters.
const (
	RestoreRuntime  Kind = "restore a runtime from an earlier snapshot"
	RestoreControl  Kind = "restore the control plane from an earlier snapshot"
	DeleteManifests Kind = "delete the CRD of a runtime's Manifests"
	StopServing     Kind = "stop serving a module's kind"
	LimitObjects    Kind = "set a quota that allows no more objects"
	RefuseObjects   Kind = "set an admission policy that refuses a module's objects"
	CloneRuntime    Kind = "start a copy of a runtime"
	DeleteNamespace Kind = "delete the namespace kyma-system of a runtime"
)

// Users' actions.
const (
	RotatePublisher Kind = "rotate the publisher's key"
	RotateEnroll    Kind = "rotate the enrollment key"
	RotateRoot      Kind = "rotate the root key"
	RotateToken     Kind = "rotate the token secret"
	Promote         Kind = "promote a good version"
	PromoteBroken   Kind = "promote a broken version"
	PutBack         Kind = "put the channel back"
	UndoRollout     Kind = "undo the newest rollout"
	PauseRollout    Kind = "pause the newest rollout"
	RequireModule   Kind = "make a module mandatory"
	MistypeWave     Kind = "promote a version with a typo in the selector of the canaries"
	SuspendRuntime  Kind = "suspend publishing to a runtime"
	RevokeKey       Kind = "revoke the key of a runtime"
	CloseWindow     Kind = "close a maintenance window"
	CreateKyma      Kind = "create a Kyma"
	DeleteKyma      Kind = "delete a Kyma"
	AddModule       Kind = "an admin adds a module"
	RemoveModule    Kind = "an admin removes a module"
	DeleteOwnKyma   Kind = "a user deletes the Kyma in a runtime"
	EditObject      Kind = "a user edits a module's object"
	DeleteObject    Kind = "a user deletes a module's object"
)
