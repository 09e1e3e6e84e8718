// Command kcp-publisher resolves Kymas into signed bundles that runtimes pull, and processes the runtimes' reports.
package main

import (
	"os"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command"
)

// version is set when a release is built.
var version = "dev"

func main() {
	os.Exit(command.Execute(version, os.Args[1:], os.Stdout, os.Stderr))
}
