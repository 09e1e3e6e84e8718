// Package install reconciles the cluster with its Manifests.
//
// Inputs are Manifest objects and the content store. Outputs are the modules' objects in the cluster and the status of
// each Manifest: the inventory of applied objects, its state and its reasons. A Manifest is installed only if its
// content is complete and renders: missing or broken content changes nothing.
//
// The package guarantees:
//   - An object is in the inventory before it is in the cluster, and leaves it after its deletion. A crash at any
//     point loses nothing.
//   - Only objects with this Manifest's mark are deleted or released. An object of another client is neither written
//     nor deleted, unless its adoption was requested.
//   - No worker waits. Unfinished work is checked again later, or after an event of a watch.
//   - Objects are applied after a change of the Manifest, after a start of the agent, and after a watch saw a change
//     of one of our fields. There is no timer, except a slow resync that corrects events which a watch missed.
//
// Decisions are pure: next, makePlan, claimedByOther, judge, removalStages, and the rules of package guard for the
// content of modules. Reads and writes are in apply.go, exposure.go, ownership.go, observe.go and remove.go.
// planned.go keeps the last compared objects, watches.go watches them, actor.go selects the account, and record.go
// writes conditions and Events.
package install
