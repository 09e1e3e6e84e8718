package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cli"
)

const maxNamed = 10

// noBundleError is the error if a registry does not contain a bundle for the runtime. The field otherRuntimes lists the
// runtimes that have a bundle in the registry. The field is empty if the registry does not support listing
// repositories.
type noBundleError struct {
	runtime       string
	otherRuntimes []string
	cause         error
}

func (e *noBundleError) Unwrap() error { return e.cause }

func (e *noBundleError) Error() string {
	text := fmt.Sprintf("the registry has no bundle for runtime %s", e.runtime)
	if len(e.otherRuntimes) == 0 {
		return text
	}
	if similar := cli.DidYouMean(e.runtime, e.otherRuntimes); similar != "" {
		return text + similar
	}
	named := strings.Join(e.otherRuntimes[:min(len(e.otherRuntimes), maxNamed)], ", ")
	if more := len(e.otherRuntimes) - maxNamed; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return text + ", only bundles for " + named
}

// newNoBundleError returns a noBundleError for a location.
func newNoBundleError(ctx context.Context, place store.Store, runtime string, cause error) error {
	e := &noBundleError{runtime: runtime, cause: cause}
	var repositories []string
	var err error
	if layout, ok := place.(*store.Layout); ok {
		repositories, err = layout.Repositories()
	} else {
		repositories, err = store.Repositories(ctx, place)
	}
	if err != nil {
		return e
	}
	for _, name := range repositories {
		if id, ok := strings.CutPrefix(name, bundle.DesiredRepository("")); ok && id != runtime {
			e.otherRuntimes = append(e.otherRuntimes, id)
		}
	}
	slices.Sort(e.otherRuntimes)
	return e
}
