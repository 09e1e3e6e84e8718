package chaos

import (
	"slices"
	"time"
)

// weight defines the relative frequency and the duration of a kind of step.
type weight struct {
	kind   Kind
	weight int
	// shortest and longest limit the duration. Both are zero for an instantaneous step.
	shortest, longest time.Duration
}

var weights = []weight{
	{KillPublisher, 6, time.Second, 8 * time.Second}, {KillAgent, 6, time.Second, 6 * time.Second},
	{StopControlAPI, 2, time.Second, 8 * time.Second}, {StopRuntimeAPI, 2, time.Second, 8 * time.Second},
	{StopRegistry, 3, time.Second, 10 * time.Second}, {SlowRegistry, 3, 3 * time.Second, 12 * time.Second},
	{FailRegistry, 4, 2 * time.Second, 12 * time.Second}, {FillRegistry, 2, 2 * time.Second, 8 * time.Second},
	{LoseAnswers, 4, 3 * time.Second, 12 * time.Second},
	{FillCache, 1, 2 * time.Second, 8 * time.Second}, {LoseBundles, 3, 0, 0}, {RestoreRegistry, 2, 0, 0},
	{CutRuntime, 5, 2 * time.Second, 20 * time.Second}, {TakeLease, 2, 0, 0}, {DeleteLease, 2, 0, 0},
	{RotatePublisher, 2, 0, 0}, {RotateEnroll, 1, 0, 0}, {RotateRoot, 1, 0, 0}, {RotateToken, 1, 0, 0},
	{Promote, 9, 0, 0}, {PromoteBroken, 2, 0, 0}, {PutBack, 2, 0, 0}, {UndoRollout, 1, 0, 0}, {
		PauseRollout, 1, 2 * time.Second, 8 * time.Second,
	},
	{CloseWindow, 2, 3 * time.Second, 15 * time.Second}, {CreateKyma, 2, 0, 0}, {DeleteKyma, 2, 0, 0},
	{AddModule, 4, 0, 0}, {RemoveModule, 4, 0, 0}, {EditObject, 3, 0, 0}, {DeleteObject, 3, 0, 0},
	{RefuseCommit, 3, 5 * time.Second, 25 * time.Second}, {LoseLabel, 4, 3 * time.Second, 20 * time.Second},
	{HideModule, 2, 3 * time.Second, 15 * time.Second}, {MistypeWave, 2, 5 * time.Second, 15 * time.Second},
	{RevokeKey, 2, quarantineGrace + 2*time.Second, quarantineGrace + 5*time.Second},
	{DeleteOwnKyma, 2, 0, 0},
	{RequireModule, 1, 5 * time.Second, 20 * time.Second},
	{RefuseWrites, 2, 5 * time.Second, 25 * time.Second},
	{SuspendRuntime, 2, quarantineGrace + 3*time.Second, quarantineGrace + 15*time.Second},
}

// network lists the steps that a plan adds if Shape.Network is set.
var network = []weight{
	{HangWay, 6, 2 * time.Second, 20 * time.Second}, {ResetWay, 6, time.Second, 10 * time.Second},
	{SlowWay, 4, 3 * time.Second, 12 * time.Second}, {ForgetWay, 4, 0, 0},
}

// clocks lists the steps that a plan adds if Shape.Clocks is set.
var clocks = []weight{{SetClock, 15, 3 * time.Second, 25 * time.Second}}

// disasters lists the steps that a plan adds if Shape.Disasters is set.
var disasters = []weight{
	{RestoreRuntime, 3, 0, 0}, {RestoreControl, 2, 0, 0}, {DeleteManifests, 3, 0, 0}, {StopServing, 4, 0, 0},
	{LimitObjects, 4, 2 * time.Second, 15 * time.Second}, {CloneRuntime, 2, 5 * time.Second, 20 * time.Second},
	{DeleteNamespace, 2, 0, 0}, {RefuseObjects, 3, 2 * time.Second, 15 * time.Second},
}

// bundleValidity is the validity period of bundles with Shape.Expiry. It is shorter than the validity period of agents'
// certificates, because a stopped publisher cannot renew the certificates.
const bundleValidity = 30 * time.Second

// expiry lists the steps that a plan adds if Shape.Expiry is set.
var expiry = []weight{{StopPublishers, 4, bundleValidity + 5*time.Second, bundleValidity + 20*time.Second}}

// clockShifts lists the possible shifts of a clock. Agents tolerate small shifts. After a larger shift, they refuse
// bundles.
var clockShifts = []time.Duration{
	2 * time.Hour, -2 * time.Hour, 3 * 24 * time.Hour, -3 * 24 * time.Hour, 9 * 24 * time.Hour, -9 * 24 * time.Hour,
}

// clockRest is the pause between two clock shifts. During the pause, bundles with correct times replace bundles with
// wrong times. Two clocks must not be ahead at the same time, because only an operator can repair that state
// (docs/runbooks/wrong-clocks.md).
const clockRest = 40 * time.Second

// authorities lists the steps that a plan adds if Shape.Authorities is set.
var authorities = []weight{{ReplaceCA, 3, 10 * time.Second, 30 * time.Second}}

// shards lists the steps that a plan adds if Shape.Shards is set.
var shards = []weight{{KillPlanner, 4, time.Second, 8 * time.Second}}

// caReplacementTime is the additional time that a ReplaceCA step needs until the announcement has reached all runtimes.
const caReplacementTime = 2 * time.Minute

func (s Shape) weights() []weight {
	all := slices.Clone(weights)
	if s.Network {
		all = append(all, network...)
	}
	if s.Clocks {
		all = append(all, clocks...)
	}
	if s.Disasters {
		all = append(all, disasters...)
	}
	if s.Expiry {
		all = append(all, expiry...)
	}
	if s.Authorities {
		all = append(all, authorities...)
	}
	if s.Shards {
		all = append(all, shards...)
	}
	return all
}
