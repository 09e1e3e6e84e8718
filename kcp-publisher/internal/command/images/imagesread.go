package images

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/inventory"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/export"
)

// readReported returns all runtimes with the module versions in their last reports. It reads healthy runtimes from the
// API server's table of Kymas, which lacks the digests of bundles. It reads complete Kymas only for the other runtimes,
// and for runtimes with bundles that export.Contents needs.
func readReported(
	ctx context.Context, api client.Reader, table rest.Interface, of controlplane.KymaSelector, now time.Time,
) ([]inventory.Runtime, error) {
	rows, err := controlplane.ListRows(ctx, table, of)
	// If the table expired, list the Kymas instead. If the CRD is missing, listing returns a clearer error.
	if err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsNotFound(err) {
		return nil, err
	}
	listed := map[types.NamespacedName]inventory.Runtime{}
	d := controlplane.DivideRows(rows, func(row fleet.Row) (fleet.Runtime, bool) {
		r, healthy := row.RuntimeWithModules(now)
		reported, err := time.Parse(time.RFC3339, row.ReportTime)
		if healthy = healthy && err == nil; healthy {
			listed[types.NamespacedName{Namespace: row.Namespace, Name: row.Name}] = inventory.ListedRuntime(&r, reported)
		}
		return r, healthy
	})
	kymas, healthy, err := controlplane.ReadDivided(ctx, api, of, d)
	if err != nil {
		return nil, err
	}
	remaining := map[types.NamespacedName]inventory.Runtime{}
	for _, r := range healthy {
		name := types.NamespacedName{Namespace: r.Namespace, Name: r.Kyma}
		remaining[name] = listed[name]
	}
	sources := findSources(remaining)
	more, err := controlplane.ReadEach(ctx, api, sources)
	if err != nil {
		return nil, err
	}
	for _, name := range sources {
		delete(remaining, name)
	}
	return append(inventory.ReportedRuntimes(append(kymas, more...)), slices.Collect(maps.Values(remaining))...), nil
}

// findSources selects the runtimes with bundles to read: for each module version, up to export.MaxBundlesTried runtimes
// with a bundle that contains the version.
func findSources(runtimes map[types.NamespacedName]inventory.Runtime) []types.NamespacedName {
	var sources []types.NamespacedName
	found := map[inventory.Module]int{}
	byName := func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }
	for _, name := range slices.SortedFunc(maps.Keys(runtimes), byName) {
		modules := runtimes[name].Modules
		missing := func(m inventory.Module) bool { return found[m] < export.MaxBundlesTried }
		if !slices.ContainsFunc(modules, missing) {
			continue
		}
		sources = append(sources, name)
		for _, m := range modules {
			found[m]++
		}
	}
	return sources
}
