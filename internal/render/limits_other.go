//go:build !linux

package render

import (
	"os"
	"syscall"
)

// dieWithParent is only supported on Linux, where agents run. On other systems, only the timeout ends a child.
func dieWithParent() *syscall.SysProcAttr { return nil }

func peakBytes(*os.ProcessState) int64 { return 0 }

func giveUp(limits) error { return nil }
