// Command assets provides a test cluster's programs and promtool, and prints their paths.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/kyma-pull/kyma-pull/hack/assets"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	alerts := flag.Bool("alerts", true, "also obtain promtool for the alert tests")
	limit := flag.String("kubernetes", "",
		"print only the folder with the programs of the oldest or newest supported version")
	flag.Parse()
	if *limit != "" {
		dir, err := assets.EnsureLimit(ctx, *limit, os.Stderr)
		if err != nil {
			fmt.Fprintln(os.Stderr, "assets: -kubernetes:", err)
			os.Exit(1)
		}
		fmt.Println(dir)
		return
	}
	found, err := assets.Ensure(ctx, os.Stderr)
	promtool := ""
	if err == nil && *alerts {
		promtool, err = assets.EnsurePromtool(ctx, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "assets:", err)
		os.Exit(1)
	}
	fmt.Printf("kube-apiserver  %s\netcd            %s\nkwok            %s\npromtool        %s\n", found.KubeAPIServer,
		found.Etcd, found.Kwok, promtool)
	if found.Kubectl != "" {
		fmt.Printf("kubectl         %s\n", found.Kubectl)
	}
}
