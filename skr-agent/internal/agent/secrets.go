package agent

import (
	"context"
	"errors"

	"github.com/go-logr/logr"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// keepSecrets writes the sealed Secrets of the bundle in force if the bundle changed them, if the last write failed,
// and with every poll. If the Kyma was deleted, the runtime keeps its Secrets until its modules are removed.
func (a *Agent) keepSecrets(ctx context.Context, log logr.Logger, p bundle.Predicate, again bool) {
	if p.Deleting {
		return
	}
	before := bundle.ReportedSecrets{}
	if a.secrets != nil {
		before = *a.secrets
	}
	a.secrets = a.Secrets.Keep(ctx, p.Sealed, again)
	switch {
	case a.secrets == nil || *a.secrets == before:
	case a.secrets.Trouble != "":
		log.Error(errors.New(a.secrets.Trouble), "failed to write some Secrets of the bundle in force")
	default:
		log.Info("wrote the Secrets of the bundle in force", "revision", a.secrets.Revision)
	}
}
