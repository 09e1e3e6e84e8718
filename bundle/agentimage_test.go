package bundle

import (
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

func TestAgentImageRollbackMustBeInTheStatement(t *testing.T) {
	pin := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	p := Predicate{
		Rollback: AgentRollbacks([]string{pin("b"), "mirror.example/agent:1.3.0@" + pin("c")},
			"host.example/agent:1.2.0@"+pin("a")),
	}
	for name, c := range map[string]struct {
		from, to string
		want     bool
	}{
		"rollback listed in the statement": {"host.example/agent@" + pin("b"), "host.example/agent@" + pin("a"), true},
		"rollback listed in the statement, image from a mirror": {
			"host.example/agent:1.3.0@" + pin("c"), "mirror.example/agent@" + pin("a"), true,
		},
		"running image not listed": {
			"host.example/agent@" + pin("d"), "host.example/agent@" + pin("a"), false,
		},
		"target image not listed": {
			"host.example/agent@" + pin("b"), "host.example/agent@" + pin("c"), false,
		},
		"running image with a tag instead of a digest": {
			"host.example/agent:1.3.0", "host.example/agent@" + pin("a"), false,
		},
		"rollback listed for a module only": {"1.3.0", "1.2.0", false},
	} {
		if got := p.AllowsAgentRollback(c.from, c.to); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
	if all := AgentRollbacks([]string{pin("b")}, ""); len(all) > 0 {
		t.Errorf("without an image: got rollbacks %v, want none", all)
	}
}

func TestAgentImageBelowTheMinimumVersionIsRefused(t *testing.T) {
	const pin = "@sha256:0000000000000000000000000000000000000000000000000000000000000000"
	root := trust.Root{Floors: map[string]string{AgentComponent: "1.2.0"}}
	for name, c := range map[string]struct {
		image string
		fits  bool
	}{
		"no agent image":                              {"", true},
		"image of the minimum version":                {"host.example/agent:1.2.0" + pin, true},
		"image newer than the minimum":                {"host.example:5000/agent:v1.3.0" + pin, true},
		"image older than the minimum":                {"host.example/agent:1.1.9" + pin, false},
		"image without a tag":                         {"host.example/agent" + pin, false},
		"image with a tag that is not a version":      {"host.example/agent:latest" + pin, false},
		"image of a commit that contains only digits": {"host.example/agent:54501714" + pin, false},
	} {
		err := CheckReleases(root, DesiredState{Settings: Settings{Agent: c.image}}, nil, decode, time.Now())
		if (err == nil) != c.fits {
			t.Errorf("%s: got error %v, want accepted: %t", name, err, c.fits)
		}
		if err := CheckReleases(trust.Root{}, DesiredState{Settings: Settings{Agent: c.image}}, nil, decode,
			time.Now()); err != nil {
			t.Errorf("%s, without a floor: got error %v, want no error", name, err)
		}
	}
}
