package manager

import (
	"math/rand"
	randv2 "math/rand/v2"
)

// shared is a source of random numbers that all reconcilers may read at once. The one that the jitter package makes by itself may not
// be: math/rand's sources have no lock, and two readers at once can end in a panic.
type shared struct{}

var _ rand.Source64 = shared{}

func (shared) Int63() int64   { return int64(randv2.Uint64() >> 1) }
func (shared) Uint64() uint64 { return randv2.Uint64() }
func (shared) Seed(int64)     {} // nothing here can be repeated, and nothing has to be
