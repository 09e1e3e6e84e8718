package time

import (
	"sync/atomic"
	"syscall"
)

// chaosShift is the shift of this program's clock in seconds. Only a test builds programs with it.
var chaosShift atomic.Int64

func init() {
	dir, set := syscall.Getenv("CHAOS_CLOCKS")
	if !set {
		return
	}
	path := dir + "/" + chaosAddress()
	read := func() {
		data, err := readFile(path)
		if err != nil {
			return
		}
		seconds, negative := int64(0), false
		for _, c := range data {
			if c == '-' {
				negative = true
			} else if c >= '0' && c <= '9' {
				seconds = seconds*10 + int64(c-'0')
			}
		}
		if negative {
			seconds = -seconds
		}
		chaosShift.Store(seconds)
	}
	read()
	go func() {
		for {
			Sleep(100 * Millisecond)
			read()
		}
	}()
}

// chaosAddress returns the last metrics address on this program's command line, which identifies the program.
func chaosAddress() string {
	data, err := readFile("/proc/self/cmdline")
	if err != nil {
		return ""
	}
	address, argument, wanted := "", "", false
	for _, c := range data {
		if c != 0 {
			argument += string(rune(c))
			continue
		}
		if wanted {
			address = argument
		}
		wanted, argument = argument == "--metrics-bind-address", ""
	}
	return address
}
