package agent

import (
	"context"

	"github.com/go-logr/logr"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/importer"
)

// importFiles imports what was dropped into the folder, to be pulled from the location like anything else.
func (a *Agent) importFiles(ctx context.Context, log logr.Logger) {
	taken, err := a.Folder.Look(ctx, importer.Importer{To: a.Place, Root: a.Puller.Root(), Now: a.Now, ClockSkew: a.Puller.Trust.ClockSkew})
	told := map[string]string{}
	if err != nil {
		taken = []importer.Taken{{File: a.Folder.Dir, Err: err}}
	}
	for _, t := range taken {
		if t.Err != nil {
			told[t.File] = t.Err.Error() // what can only be tried again is told once
			if a.notImported[t.File] == told[t.File] {
				continue
			}
		}
		switch refused := refusal.Of(t.Err); {
		case t.Err == nil:
			log.Info("imported a file", "file", t.File, "bundles", t.Outcome.Bundles, "written", t.Outcome.Written, "images", len(t.Outcome.Images))
		case refused != nil && refused.Reason == refusal.Rollback:
			log.Info("a file is older than what is here, and not imported", "file", t.File, "reason", t.Err.Error())
		default:
			log.Error(t.Err, "a file was not imported", "file", t.File)
		}
	}
	a.notImported = told
}
