// Command skr-agent is kyma-pull's agent in a runtime. It pulls and verifies the runtime's bundle, installs the
// modules, and reports their state to the control plane.
package main

import (
	"os"

	"github.com/kyma-pull/kyma-pull/skr-agent/internal/command"
)

// version is set by the linker in release builds.
var version = "dev"

func main() {
	os.Exit(command.Execute(version, os.Args[1:], os.Stdout, os.Stderr))
}
