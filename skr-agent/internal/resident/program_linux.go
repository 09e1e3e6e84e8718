package resident

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// giveBackProgram unmaps the pages of the program's own file that are only read. Two thirds of them are needed once, when packages are initialized.
// They stay in the page cache until the node needs the room, so that what is used again is mapped again without being read. A kernel that does not
// take the advice leaves everything as it is.
func giveBackProgram() {
	file, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, m := range unchanged(smaps, file) {
		for _, advice := range []uintptr{unix.MADV_COLD, unix.MADV_DONTNEED} {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, advice)
		}
	}
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// unchanged returns the mappings of a file that cannot be written and of which no page was, be it in memory or swapped out: the others are not what
// the file has any more.
//
// Source: proc_pid_smaps(5).
func unchanged(smaps []byte, file string) []mapping {
	var found []mapping
	var current mapping
	candidate, clean := false, false
	for lines := bufio.NewScanner(bytes.NewReader(smaps)); lines.Scan(); {
		line := lines.Text()
		name, value, _ := strings.Cut(line, ":")
		switch {
		case strings.Contains(name, " "): // ADDRESSES PERMISSIONS OFFSET DEVICE INODE FILE
			var permissions string
			n, err := fmt.Sscanf(line, "%x-%x %s", &current.start, &current.end, &permissions)
			clean = false
			candidate = err == nil && n == 3 && permissions[1] == '-' && permissions[3] == 'p' && strings.HasSuffix(line, " "+file)
		case candidate && name == "Anonymous":
			clean = strings.TrimSpace(value) == "0 kB"
		case candidate && name == "Swap": // comes after it
			if clean && strings.TrimSpace(value) == "0 kB" {
				found = append(found, current)
			}
			candidate = false
		}
	}
	return found
}

// processorTime is how much processor time the program has used.
func processorTime() time.Duration {
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
