// Package cli contains code that the command lines of kcp-publisher and skr-agent share: exit codes, usage errors, the
// root command with --config and logging, flags for registries and the root of trust, output formats and progress bars.
package cli
