// Package ui is the web page of a fleet: the fleet as fleet.Look judges it goes in, pages for people come out. The first answers whether the fleet
// is well and if not, what to look at first; the others show one runtime, the rollouts as their waves fill, and which version of a module runs where.
//
// The page reads. What it changes is a rollout's pause and the approval of a wave, by whoever may patch that Rollout. It knows nobody: who
// serves it puts a Viewer into the context of each request, which says what may be seen and changed.
//
// Every text is hostile: runtimes report messages, owners choose labels. They are bounded and escaped by html/template, and the browser is told
// to run and load nothing but what is embedded here.
package ui

import (
	"context"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// Options are what the pages show.
type Options struct {
	Source *Source
	// Origins reads the bundle that was published to a runtime, verifies it, and returns where its modules come from. Nil without a registry.
	Origins func(ctx context.Context, kyma *v1beta2.Kyma) ([]bundle.Origin, error)
	// Events returns the Events of a Kyma, read with the rights of whose request ctx is of. Nil shows none.
	Events func(ctx context.Context, kyma *v1beta2.Kyma) ([]corev1.Event, error)
	Now    func() time.Time
}

// Handler returns the pages. It refuses a request without a Viewer.
func Handler(o Options) http.Handler {
	return http.NotFoundHandler()
}
