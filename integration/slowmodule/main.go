// Command slowmodule runs a workload for the sample module scaler, and a Prometheus that measures the workload. Both
// run outside the runtime, because the runtime does not have nodes. The workload behaves like the version in the
// runtime's Deployment scaler-manager: from version 1.9.0 on, it is slow, although the Deployment is ready. The
// command also creates the Service monitoring/prometheus in the runtime, which module checks can query.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

func main() {
	flags := flag.NewFlagSet("slowmodule", flag.ExitOnError) // controller-runtime adds --kubeconfig to the default set
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig for the runtime")
	_ = flags.Parse(os.Args[1:]) // exits on errors
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, "slowmodule:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string) (err error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	runtime, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	host, err := fleet.OwnAddress()
	if err != nil {
		return err
	}
	module := newWorkload(runtime)
	address, err := module.start(ctx, host)
	if err != nil {
		return err
	}
	prometheus, err := startPrometheus(ctx, host, address)
	if err != nil {
		return err
	}
	defer prometheus.close()
	if err := publish(ctx, runtime, prometheus.address); err != nil {
		return fmt.Errorf("create Service monitoring/prometheus: %w", err)
	}
	if err := prometheus.untilMeasured(ctx); err != nil {
		return err
	}
	fmt.Printf("Service monitoring/prometheus forwards to Prometheus at http://%s, which measures module scaler.\n"+
		"Press Ctrl-C to stop.\n", prometheus.address)
	select {
	case <-ctx.Done():
		return nil
	case <-prometheus.process.Exited():
		return fmt.Errorf("prometheus exited:\n%s", prometheus.output())
	}
}

// logError logs an error in a background task. The task continues after an error.
func logError(what string, err error) {
	slog.Error(what, "error", err)
}
