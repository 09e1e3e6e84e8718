package excerpt

import (
	"fmt"
	"slices"
	"strings"
)

// Few is the number of messages that FirstFew lists.
const Few = 3

// FirstFew returns the first few messages in alphabetical order, and the number of the other messages. It sorts the
// slice in place.
func FirstFew(messages []string) string {
	slices.Sort(messages)
	if more := len(messages) - Few; more > 0 {
		return fmt.Sprintf("%s; and %d more", strings.Join(messages[:Few], "; "), more)
	}
	return strings.Join(messages, "; ")
}
