//go:build !linux

package render

import (
	"os"
	"syscall"
)

// dieWithParent only works on Linux, where agents run. Elsewhere, only the deadline ends a child.
func dieWithParent() *syscall.SysProcAttr { return nil }

func peakBytes(*os.ProcessState) int64 { return 0 }

func giveUp(limits) error { return nil }
