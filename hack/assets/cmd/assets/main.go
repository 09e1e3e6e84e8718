// Command assets obtains the programs that a test cluster is made of and prints where they are.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/kyma-pull/kyma-pull/hack/assets"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	found, err := assets.Ensure(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "assets:", err)
		os.Exit(1)
	}
	fmt.Printf("kube-apiserver  %s\netcd            %s\nkwok            %s\n", found.KubeAPIServer, found.Etcd, found.Kwok)
	if found.Kubectl != "" {
		fmt.Printf("kubectl         %s\n", found.Kubectl)
	}
}
