// Command nodes prints the name of a node image that is at hand when it ends. It fails where no image can be pulled or
// made.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/kyma-pull/kyma-pull/integration/kind"
)

func main() {
	name, err := kind.NodeImage(context.Background(), ".", os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "nodes:", err)
		os.Exit(1)
	}
	fmt.Println(name)
}
