package terminal

import (
	"fmt"
	"strings"
)

// maxNamed is the maximum number of runtimes that one line lists by name.
const maxNamed = 5

// JoinRuntimes returns a comma-separated list of the runtimes. After maxNamed runtimes, the list ends with "…".
func JoinRuntimes(runtimes []string) string {
	if len(runtimes) <= maxNamed {
		return strings.Join(runtimes, ", ")
	}
	return strings.Join(runtimes[:maxNamed], ", ") + ", …"
}

// Pluralize returns the number and the noun, such as "2 runtimes".
func Pluralize(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
