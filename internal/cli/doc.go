// Package cli is what the command lines of both programs have in common: exit codes, usage errors, the root command with --config and
// logging, flags for registries and the root of trust, output formats and progress bars. What a command does is the programs' own.
package cli
