package manager

import (
	"math/rand"
	randv2 "math/rand/v2"
)

// shared is a random source that is safe for concurrent use. The default source of Flux's jitter package can panic.
type shared struct{}

var _ rand.Source64 = shared{}

func (shared) Int63() int64   { return int64(randv2.Uint64() >> 1) }
func (shared) Uint64() uint64 { return randv2.Uint64() }
func (shared) Seed(int64)     {} // no-op, because the numbers need not be reproducible
