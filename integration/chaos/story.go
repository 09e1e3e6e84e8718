package chaos

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Story is a readable log of a run.
type Story struct {
	began time.Time
	live  io.Writer // receives every line immediately; can be nil

	mu    sync.Mutex // guards the fields below
	lines []line
}

type line struct {
	at   time.Duration
	text string
}

// NewStory starts a story.
func NewStory(began time.Time, live io.Writer) *Story { return &Story{began: began, live: live} }

// Add adds a line.
func (s *Story) Add(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := line{time.Since(s.began), fmt.Sprintf(format, args...)}
	s.lines = append(s.lines, l)
	if s.live != nil {
		fmt.Fprintln(s.live, l)
	}
}

func (l line) String() string {
	at := l.at.Round(100 * time.Millisecond)
	return fmt.Sprintf("%02d:%04.1f  %s", int(at.Minutes()), (at % time.Minute).Seconds(),
		strings.ReplaceAll(strings.TrimSpace(l.text), "\n", "\n         "))
}

// String returns all lines.
func (s *Story) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var text strings.Builder
	for _, l := range s.lines {
		fmt.Fprintln(&text, l)
	}
	return text.String()
}
