package agent

import (
	"context"
	"errors"

	"github.com/go-logr/logr"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// writeSecrets writes the sealed Secrets of the last accepted bundle. If again is true, it also compares Secrets that
// it has written before.
func (a *Agent) writeSecrets(ctx context.Context, log logr.Logger, p bundle.Predicate, again bool) {
	before := bundle.ReportedSecrets{}
	if a.secrets != nil {
		before = *a.secrets
	}
	a.secrets = a.Secrets.Reconcile(ctx, p.Sealed, again)
	switch {
	case a.secrets == nil || *a.secrets == before:
	case a.secrets.Trouble != "":
		log.Error(errors.New(a.secrets.Trouble), "failed to write some Secrets of the last accepted bundle")
	default:
		log.Info("wrote the Secrets of the last accepted bundle", "revision", a.secrets.Revision)
	}
}
