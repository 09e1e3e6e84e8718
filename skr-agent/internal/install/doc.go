// Package install brings the cluster in line with its Manifests.
//
// In go Manifest objects and the content store; out come the modules' objects in the cluster and, in each Manifest's
// status, the inventory of what was applied, its state and its reasons. A Manifest is installed when content and
// rendering say so without a doubt: content that is missing or broken changes nothing.
//
// What the package promises:
//   - An object is in the inventory before it is in the cluster, and leaves it after it is gone. A crash at any point forgets
//     nothing.
//   - Only objects that carry this Manifest's mark are deleted or released. An object that somebody else made is neither written nor
//     deleted, unless taking it over was asked for.
//   - No worker waits. What is not finished is looked at again later, or when a watch says that something happened.
//   - Objects are applied when the Manifest changed, when the agent started, and when a watch saw a field of ours change. They
//     are not applied on a timer, but for a slow resync that mends what a watch may have missed.
//
// Decisions are pure: next, makePlan, claimedByOther, judge, removalStages, and the rules of package guard for the
// content of modules. Reading and writing is in apply.go, exposure.go, ownership.go, observe.go and remove.go.
// planned.go keeps the last compared objects, watches.go watches them, actor.go selects the account, and record.go
// writes conditions and Events.
package install
