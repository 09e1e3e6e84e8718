package manager

import (
	"math/rand"
	randv2 "math/rand/v2"
)

// sharedSource is a random source that is safe for concurrent use. The default source in Flux's jitter package can
// panic.
type sharedSource struct{}

var _ rand.Source64 = sharedSource{}

func (sharedSource) Int63() int64   { return int64(randv2.Uint64() >> 1) }
func (sharedSource) Uint64() uint64 { return randv2.Uint64() }
func (sharedSource) Seed(int64)     {} // no-op, because the numbers do not have to be reproducible
