package agent

import (
	"context"
	"slices"

	"github.com/go-logr/logr"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/importer"
)

// importFiles imports the files in the import folder into the registry or OCI layout of the agent. The poll then reads
// the imported bundle from there.
func (a *Agent) importFiles(ctx context.Context, log logr.Logger) {
	taken, err := a.Folder.Import(ctx, importer.Importer{
		To: a.Puller.Location(), Root: a.Puller.Root(), Now: a.Now, ClockSkew: a.Puller.Trust.ClockSkew,
	})
	if err != nil {
		taken = []importer.Taken{{File: a.Folder.Dir, Err: err}}
	}
	for _, t := range a.importNews(taken) {
		switch refused := refusal.Of(t.Err); {
		case t.Err == nil:
			log.Info("imported a file", "file", t.File, "bundles", t.Outcome.Bundles, "written", t.Outcome.Written,
				"images", len(t.Outcome.Images))
		case refused != nil && refused.Reason == refusal.Rollback:
			log.Info("skipped a file that is older than the last accepted bundle", "file", t.File, "reason",
				t.Err.Error())
		default:
			log.Error(t.Err, "failed to import a file", "file", t.File)
		}
	}
}

// importNews returns the outcomes to log. It omits failures that were logged before with the same error.
func (a *Agent) importNews(taken []importer.Taken) []importer.Taken {
	failed := map[string]string{}
	for _, t := range taken {
		if t.Err != nil {
			failed[t.File] = t.Err.Error()
		}
	}
	news := a.notImported.Replace(failed)
	return slices.DeleteFunc(taken, func(t importer.Taken) bool {
		return t.Err != nil && !slices.Contains(news, t.File)
	})
}
