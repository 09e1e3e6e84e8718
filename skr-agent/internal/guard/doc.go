// Package guard holds the rules for the content of modules: which objects a module may write, which fields of them,
// whose objects it may take over, delete or recreate, and with which account it is installed.
//
// Everything here is pure. The input is facts: rendered objects, live metadata, installed webhooks, and settings.
// The output is a refusal that names the object, the rule and the fix, or nothing. Package install reads the facts
// and acts on the answer.
//
// The rules protect the names and kinds of charts/skr-agent. Its admission policies (policy/protection.yaml) enforce
// the same rules against tenants and against modules that have a ServiceAccount of their own.
package guard
