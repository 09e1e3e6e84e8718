package objects

import (
	"context"

	"github.com/kyma-pull/kyma-pull/internal/checks"
)

// Checks returns the saved results of module checks.
func (k *Keeper) Checks(ctx context.Context) ([]checks.Record, error) {
	if err := k.load(ctx); err != nil {
		return nil, err
	}
	return k.memory.Checks, nil
}

// KeepChecks saves the results of module checks.
func (k *Keeper) KeepChecks(ctx context.Context, records []checks.Record) error {
	if err := k.load(ctx); err != nil {
		return err
	}
	next := k.memory
	next.Checks = records
	return k.keep(ctx, next)
}
