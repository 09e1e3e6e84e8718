package cluster

import (
	"fmt"
	"os"
)

// TestGOGC is the value of GOGC for programs whose resource usage is not measured. It saves a tenth of an API server's
// CPU time.
const TestGOGC = 400

// GOGCSetting returns the environment variable GOGC with the value TestGOGC. It returns nil if this process's
// environment sets GOGC.
func GOGCSetting() []string {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return []string{fmt.Sprintf("GOGC=%d", TestGOGC)}
}
