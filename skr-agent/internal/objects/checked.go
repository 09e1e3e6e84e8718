package objects

import (
	"context"

	"github.com/kyma-pull/kyma-pull/internal/checks"
)

// LoadChecks returns the saved results of module checks.
func (k *Restorer) LoadChecks(ctx context.Context) ([]checks.Record, error) {
	if err := k.loadMemory(ctx); err != nil {
		return nil, err
	}
	return k.memory.Checks, nil
}

// SaveChecks saves the results of module checks.
func (k *Restorer) SaveChecks(ctx context.Context, records []checks.Record) error {
	if err := k.loadMemory(ctx); err != nil {
		return err
	}
	next := k.memory
	next.Checks = records
	return k.saveMemory(ctx, next)
}
