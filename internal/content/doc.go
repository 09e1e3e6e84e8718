// Package content checks a module's content. The publisher's command `component create` and the agent call the same
// function Check, so that agents accept all content that the command accepts. The package is pure.
package content
