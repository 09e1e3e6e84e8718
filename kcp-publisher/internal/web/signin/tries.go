package signin

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// triesPerSecond and triesAtOnce bound how often the API server or the provider is asked about what strangers send.
const (
	triesPerSecond = 5
	triesAtOnce    = 30
)

// tries bounds what is refused. What is being tried counts as refused until it is known: else all that come while the first answer is awaited
// would be tried.
type tries struct {
	mu      sync.Mutex // guards what follows
	refused *rate.Limiter
	pending int
}

func newTries() *tries { return &tries{refused: rate.NewLimiter(triesPerSecond, triesAtOnce)} }

// begin reports whether one more may be tried; if so, end follows.
func (t *tries) begin(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refused.TokensAt(now) < float64(t.pending+1) {
		return false
	}
	t.pending++
	return true
}

// end ends what begin began.
func (t *tries) end(now time.Time, refused bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending--
	if refused {
		t.refused.AllowN(now, 1)
	}
}
