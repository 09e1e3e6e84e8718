//go:build !linux

package render

import (
	"os"
	"syscall"
)

// dieWithParent is for Linux, where agents run. Elsewhere, on developers' machines, the deadline alone ends a child.
func dieWithParent() *syscall.SysProcAttr { return nil }

func peakBytes(*os.ProcessState) int64 { return 0 }

func giveUp(limits) error { return nil }
