// Package guard contains the rules for module content. They limit the objects and fields that a module can write, and
// the existing objects that it can take over, delete or recreate. They also select the account that installs the
// module.
//
// All functions are pure. Their input is rendered objects, live metadata, installed webhooks and settings. Their output
// is empty, or a refusal that contains the object, the rule and the fix. Package install reads the input from the
// cluster and acts on the output.
//
// The chart's admission policies (policy/protection.yaml) enforce the same rules for tenants and for modules that
// have their own ServiceAccount. Each entry in the rule table (*rules.go) contains the Go check and the policies'
// expressions. `make generate` writes the policies.
package guard
