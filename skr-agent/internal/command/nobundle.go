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

// noBundle is the error if a registry does not contain a bundle of the runtime. The field others lists the runtimes
// that have a bundle there. It is empty if the registry does not support listing repositories.
type noBundle struct {
	runtime string
	others  []string
	cause   error
}

func (e *noBundle) Unwrap() error { return e.cause }

func (e *noBundle) Error() string {
	text := fmt.Sprintf("the registry has no bundle of runtime %s", e.runtime)
	if len(e.others) == 0 {
		return text
	}
	if similar := cli.DidYouMean(e.runtime, e.others); similar != "" {
		return text + similar
	}
	named := strings.Join(e.others[:min(len(e.others), maxNamed)], ", ")
	if more := len(e.others) - maxNamed; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return text + ", only bundles of " + named
}

// newNoBundle returns a noBundle for a location.
func newNoBundle(ctx context.Context, place store.Store, runtime string, cause error) error {
	e := &noBundle{runtime: runtime, cause: cause}
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
			e.others = append(e.others, id)
		}
	}
	slices.Sort(e.others)
	return e
}
