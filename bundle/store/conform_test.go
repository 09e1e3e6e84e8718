package store_test

import (
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/store/storetest"
)

func TestLayoutConformsAsAStore(t *testing.T) {
	storetest.Conform(t, store.NewLayout(t.TempDir()))
}

func TestMemoryConformsAsAStore(t *testing.T) { storetest.Conform(t, store.NewMemory()) }
