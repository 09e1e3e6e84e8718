package upgrade

import (
	"slices"
	"strconv"
	"strings"
)

// starts counts how often each Pod with an unproven image has started. The counts are per Pod, because several Pods
// with a broken image can become leader one after another and exit.
type starts []podStarts

type podStarts struct {
	pod   string
	count int
}

// maxCountedPods limits the number of Pods in starts. The Pods with the oldest starts are dropped.
const maxCountedPods = 8

// parseStarts parses POD:COUNT entries, separated by commas.
func parseStarts(text string) (all starts) {
	for entry := range strings.SplitSeq(text, ",") {
		pod, number, _ := strings.Cut(entry, ":")
		if count, err := strconv.Atoi(number); err == nil && count > 0 && pod != "" {
			all = append(all, podStarts{pod, count})
		}
	}
	return all
}

func (s starts) String() string {
	entries := make([]string, len(s))
	for i, p := range s {
		entries[i] = p.pod + ":" + strconv.Itoa(p.count)
	}
	return strings.Join(entries, ",")
}

func (s starts) count(pod string) int {
	if at := slices.IndexFunc(s, func(p podStarts) bool { return p.pod == pod }); at >= 0 {
		return s[at].count
	}
	return 0
}

// withCount returns a copy of the starts with the given count for one Pod. A count of zero removes the Pod.
func (s starts) withCount(pod string, count int) starts {
	others := slices.DeleteFunc(slices.Clone(s), func(p podStarts) bool { return p.pod == pod })
	if count > 0 {
		others = append(others, podStarts{pod, count})
	}
	return others[max(0, len(others)-maxCountedPods):]
}
