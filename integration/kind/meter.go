package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// Meter measures the growth of this machine's used memory.
type Meter struct {
	stop context.CancelFunc
	done sync.WaitGroup
	peak int64 // in bytes; written only by the goroutine that runs sample
	err  error
}

// NewMeter starts a measurement.
func NewMeter() *Meter {
	ctx, stop := context.WithCancel(context.Background())
	m := &Meter{stop: stop}
	m.done.Go(func() { m.sample(ctx) })
	return m
}

func (m *Meter) sample(ctx context.Context) {
	before, err := availableBytes()
	if err != nil {
		m.err = err
		return
	}
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if now, err := availableBytes(); err == nil {
				m.peak = max(m.peak, before-now)
			}
		}
	}
}

// Peak ends the measurement and returns the maximum growth in bytes. It includes all programs on the machine.
func (m *Meter) Peak() (int64, error) {
	m.stop()
	m.done.Wait()
	return m.peak, m.err
}

// availableBytes returns the machine's available memory.
//
// Source: proc_meminfo(5), MemAvailable.
func availableBytes() (int64, error) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(data), "MemAvailable:")
	if !found {
		return 0, errors.New("/proc/meminfo has no MemAvailable")
	}
	var kib int64
	_, err = fmt.Sscanf(rest, "%d kB", &kib)
	return kib << 10, err
}
