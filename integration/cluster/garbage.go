package cluster

import (
	"fmt"
	"os"
)

// CollectAt is the value of GOGC for programs that are not measured. It saves a tenth of the CPU time of an API
// server.
const CollectAt = 400

// CollectSeldom returns the environment variable that sets CollectAt. It returns nil if this process's environment
// sets GOGC.
func CollectSeldom() []string {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return []string{fmt.Sprintf("GOGC=%d", CollectAt)}
}
