package agent

import (
	"context"
	"errors"

	"github.com/go-logr/logr"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// keepSecrets writes what the bundle in force has sealed for this agent: when it is new, when not all of it could be
// written, and with every poll. A runtime whose Kyma was deleted keeps what it has until its modules are gone.
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
		log.Error(errors.New(a.secrets.Trouble), "not all Secrets of the bundle in force are written")
	default:
		log.Info("the Secrets of the bundle in force are written", "revision", a.secrets.Revision)
	}
}
