package cluster

import (
	"fmt"
	"os"
)

// CollectAt is GOGC for what is not measured: garbage is collected less often than Go does by default, which is a tenth
// of an API server's and of an agent's work, and a fifth of a test's that serves registries.
const CollectAt = 400

// CollectSeldom returns what sets that in a program's environment, nothing where GOGC is set in the environment of this
// process.
func CollectSeldom() []string {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return []string{fmt.Sprintf("GOGC=%d", CollectAt)}
}
