package cluster

import (
	"fmt"
	"os"
)

// CollectAt is the value of GOGC for programs whose resource usage is not measured. It saves a tenth of an API server's
// CPU time.
const CollectAt = 400

// CollectSeldom returns the setting of GOGC to CollectAt, for the environment of a program. It returns nil if the
// environment of this process sets GOGC.
func CollectSeldom() []string {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return []string{fmt.Sprintf("GOGC=%d", CollectAt)}
}
