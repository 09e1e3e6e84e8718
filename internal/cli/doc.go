// Package cli contains the parts that both command lines share: exit codes, usage errors, the root command with
// --config and logging, flags for registries and the root of trust, output formats and progress bars. Each program
// defines its own commands.
package cli
