package drift

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/pause"
)

// MaxWait limits how long a reconciliation waits for a watch or a CRD. After this time, the reconciliation ends, so
// that the worker can reconcile other modules.
const MaxWait = 1500 * time.Millisecond

// Await starts the resources' watches and waits up to MaxWait until they run. It reports whether they run. defined
// contains the API groups whose CRDs the module contains.
func (w *Watches) Await(
	ctx context.Context, resources []v1beta2.Resource, defined map[string]bool,
) (bool, error) {
	started := time.Now()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		inPlace, err := w.ensure(resources)
		coming := err == nil
		if meta.IsNoMatchError(err) {
			coming = slices.ContainsFunc(resources, func(r v1beta2.Resource) bool { return defined[r.Group] })
			wait = 200 * time.Millisecond
		}
		if inPlace || !coming || time.Since(started) > MaxWait || !pause.Sleep(ctx, wait) {
			return inPlace, err
		}
	}
}

// AwaitChange waits a short time until the watch shows that an object's resource version differs from the given
// version.
func (w *Watches) AwaitChange(ctx context.Context, r v1beta2.Resource, version string) {
	const step, longest, quiet = 10 * time.Millisecond, 300 * time.Millisecond, 40 * time.Millisecond
	for waited := time.Duration(0); waited < longest && pause.Sleep(ctx, step); waited += step {
		if now := w.Version(r); now != "" && now != version {
			pause.Sleep(ctx, quiet)
			return
		}
	}
}
