package command

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

func TestAdviceNamesCommandsThatExist(t *testing.T) {
	named := regexp.MustCompile("kcp-publisher ([a-z-]+)( [a-z]+)?")
	for _, d := range fleet.Descriptions() {
		for _, found := range named.FindAllStringSubmatch(d.Advice, -1) {
			args := []string{found[1]}
			if below := strings.TrimSpace(found[2]); below != "" &&
				slices.Contains([]string{"keys", "rollout", "component", "registry", "takeover"}, found[1]) {
				args = append(args, below)
			}
			if o := run(append(args, "--help")...); o.code != 0 ||
				!strings.Contains(o.out, "kcp-publisher "+strings.Join(args, " ")) {
				t.Errorf("advice for %s names %q, which exits with %d: %s%s", d.Situation, found[0], o.code, o.out,
					o.err)
			}
		}
	}
}
