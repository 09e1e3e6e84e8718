package controller

import "math/rand/v2"

type turn struct {
	weight int
	name   string
	take   func()
}

func drawn(random *rand.Rand, possible []turn) turn {
	total := 0
	for _, t := range possible {
		total += t.weight
	}
	n := random.IntN(total)
	for _, t := range possible {
		if n -= t.weight; n < 0 {
			return t
		}
	}
	panic("the weights of the turns add up to less than their total")
}

func one[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }
