// Package install reconciles the cluster with its Manifests.
//
// Its input is Manifests and the content store. Its output is the modules' objects in the cluster, and each Manifest's
// status with its inventory, state and conditions. If content is missing or broken, the module's objects stay
// unchanged.
//
// The package guarantees:
//   - An object is added to the inventory before its creation, and removed from the inventory after its deletion. A
//     crash at any point does not orphan an object.
//   - The agent deletes an object only if its annotation owned-by names the Manifest, or if lifecycle-manager installed
//     it for the module. It does not write other existing objects, unless a user requests their adoption with an
//     annotation.
//   - Workers do not wait for slow objects. Unfinished work is checked again later, or after a watch event.
//   - Objects are applied after the Manifest changes, after the agent starts, and after a change to the agent's
//     fields in the cluster. In addition, a slow resync corrects changes that a watch missed.
//
// The type Installer selects the next step for a Manifest. The type upgrader runs an upgrade with the types planner,
// checker, dryRunner, applier and deleter. The type remover runs a removal. The type observer reads the objects for the
// status, the type reporter writes the status, and the type ledger writes the record.
//
// Function nextStep and the packages planning, readiness, outcome and guard make the decisions, and are pure. Package
// account sends the requests for a module's account, package drift watches the applied objects, and package rendering
// renders content.
package install
