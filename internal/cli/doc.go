// Package cli contains the shared parts of both command lines: exit codes, usage errors, the root command with --config
// and logging, flags for registries and the root of trust, output formats and progress bars. The commands themselves
// are in the programs.
package cli
