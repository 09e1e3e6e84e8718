// Command operator is the program of the sample module. For each Beacon, it writes a ConfigMap with the Beacon's text.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	version := flag.String("module-version", "", "module version, for each Beacon's status")
	probes := flag.String("probe-address", ":8081", "bind address for the health probes")
	flag.Parse()
	if err := run(*version, *probes); err != nil {
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(1)
	}
}

func run(version, probes string) error {
	ctrl.SetLogger(zap.New())
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	users, err := labels.NewRequirement(labelUses, selection.Exists, nil)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: probes,
		Cache: cache.Options{
			ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Label: labels.NewSelector().Add(*users)}},
		},
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(mgr).For(newBeacon()).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(beaconRequest)).
		Complete(&reconciler{mgr.GetClient(), version})
	if err := errors.Join(err, mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("ping", healthz.Ping)); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
