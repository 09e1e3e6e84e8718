// Command skr-agent is the runtime's side of kyma-pull: it pulls its runtime's bundle, verifies it, installs its
// modules and reports.
package main

import (
	"os"

	"github.com/kyma-pull/kyma-pull/skr-agent/internal/command"
)

// version is set when a release is built.
var version = "dev"

func main() {
	os.Exit(command.Execute(version, os.Args[1:], os.Stdout, os.Stderr))
}
