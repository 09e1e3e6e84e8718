package store_test

import (
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/store/storetest"
)

func TestLayoutImplementsStore(t *testing.T) {
	storetest.Conform(t, store.NewLayout(t.TempDir()))
}

func TestMemoryImplementsStore(t *testing.T) { storetest.Conform(t, store.NewMemory()) }
