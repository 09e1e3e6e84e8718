// Package suite selects the tests for a run. The short suite (`make test`) runs on every change. The long suite (`make
// test-long`) runs weekly, and after a change to the folders that CONTRIBUTING.md lists.
//
// A long test or subtest calls Long in its first line. hack/suite/list finds long tests by that call, and random tests
// by their calls to Seed and rapid.Check.
package suite

import (
	"math/rand/v2"
	"os"
	"testing"
)

// env is the environment variable that selects the long suite.
const env = "KYMA_PULL_LONG"

// Long skips the test in the short suite, which must contain a smoke test for the same behavior.
func Long(t testing.TB) {
	t.Helper()
	if !Selected() {
		t.Skip("part of the long suite: run make test-long, or set " + env + "=1")
	}
}

// Selected reports whether the long suite runs.
func Selected() bool { return os.Getenv(env) != "" }

// Seed returns and logs the seed of a random test. In the short suite, the seed is fixed. In the long suite, it is
// random.
func Seed(t testing.TB, fixed uint64) uint64 {
	t.Helper()
	seed := fixed
	if Selected() {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	return seed
}
