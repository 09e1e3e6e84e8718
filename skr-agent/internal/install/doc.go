// Package install reconciles the cluster with its Manifests.
//
// The input is Manifests and the content store. The output is the modules' objects in the cluster, and the status of
// each Manifest with its inventory, state and conditions. A Manifest is applied only if its content is complete and can
// be rendered. If content is missing or broken, the module's objects stay unchanged.
//
// The package guarantees:
//   - An object is added to the inventory before it is created, and removed from it after it is deleted. A crash at any
//     point orphans no objects.
//   - Only objects with this Manifest's mark are deleted or released. An object of another client is not written and
//     not deleted, unless its adoption was requested.
//   - Workers do not wait for slow objects. Unfinished work is checked again later, or after an event of a watch.
//   - Objects are applied after a change of the Manifest, after a start of the agent, and after a watch saw a change
//     of the agent's fields. In addition, a slow resync corrects changes that a watch missed.
//
// The decisions are pure functions: next, makePlan, claimedByOther, moduleState, removalStages, and the rules of
// package guard for the content of modules. The reads and writes are in apply.go, exposure.go, ownership.go, observe.go
// and remove.go. planned.go caches the last compared objects, watches.go watches them, actor.go selects the account,
// and record.go writes conditions and Events.
package install
