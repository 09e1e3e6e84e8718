// Package content checks the content of a module. The publisher's command `component create` and the agent call the
// same function Check, so that agents accept all content that the command accepts. The package is pure.
package content
