package cluster

import (
	"fmt"
	"os"
)

// TestGOGC is the value of GOGC for programs whose resource usage is not measured. It saves a tenth of an API server's
// CPU time.
const TestGOGC = 400

// GOGCSetting returns the assignment of TestGOGC to GOGC, for the environment of a program. It returns nil if the
// environment of this process sets GOGC.
func GOGCSetting() []string {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return []string{fmt.Sprintf("GOGC=%d", TestGOGC)}
}
