//go:build !linux

package render

import (
	"os"
	"syscall"
)

// dieWithParent returns nil, because only Linux can kill a child when its parent ends.
func dieWithParent() *syscall.SysProcAttr { return nil }

func peakBytes(*os.ProcessState) int64 { return 0 }

func restrictProcess(limits) error { return nil }
