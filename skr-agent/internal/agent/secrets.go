package agent

import (
	"context"
	"errors"

	"github.com/go-logr/logr"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// keepSecrets writes the sealed Secrets of the bundle in force if they are new or some are missing, and with every
// poll. A runtime whose Kyma was deleted keeps its Secrets until its modules are gone.
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
		log.Error(errors.New(a.secrets.Trouble), "failed to write all Secrets of the bundle in force")
	default:
		log.Info("wrote the Secrets of the bundle in force", "revision", a.secrets.Revision)
	}
}
