// Command nodes prepares a node image and prints its name. It fails if the image cannot be pulled or built.
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
