package bundle

import (
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

func TestAgentGoesBackOnlyFromTheNamedImage(t *testing.T) {
	pin := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	p := Predicate{
		Rollback: AgentRollbacks([]string{pin("b"), "mirror.example/agent:1.3.0@" + pin("c")},
			"host.example/agent:1.2.0@"+pin("a")),
	}
	for name, c := range map[string]struct {
		from, to string
		want     bool
	}{
		"a named image": {"host.example/agent@" + pin("b"), "host.example/agent@" + pin("a"), true},
		"a named image of a mirror": {
			"host.example/agent:1.3.0@" + pin("c"), "mirror.example/agent@" + pin("a"), true,
		},
		"another running image":         {"host.example/agent@" + pin("d"), "host.example/agent@" + pin("a"), false},
		"another target":                {"host.example/agent@" + pin("b"), "host.example/agent@" + pin("c"), false},
		"a tag instead of the digest":   {"host.example/agent:1.3.0", "host.example/agent@" + pin("a"), false},
		"the rollback of a module only": {"1.3.0", "1.2.0", false},
	} {
		if got := p.AgentGoesBack(c.from, c.to); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if all := AgentRollbacks([]string{pin("b")}, ""); len(all) > 0 {
		t.Errorf("without an image: %v", all)
	}
}

func TestRootHasAFloorForTheAgent(t *testing.T) {
	const pin = "@sha256:0000000000000000000000000000000000000000000000000000000000000000"
	root := trust.Root{Floors: map[string]string{AgentComponent: "1.2.0"}}
	for name, c := range map[string]struct {
		image string
		fits  bool
	}{
		"no image":               {"", true},
		"the floor":              {"host.example/agent:1.2.0" + pin, true},
		"a newer release":        {"host.example:5000/agent:v1.3.0" + pin, true},
		"an older release":       {"host.example/agent:1.1.9" + pin, false},
		"an image without a tag": {"host.example/agent" + pin, false},
		"a tag without a number": {"host.example/agent:latest" + pin, false},
	} {
		err := CheckReleases(root, DesiredState{Settings: Settings{Agent: c.image}}, nil, time.Now())
		if (err == nil) != c.fits {
			t.Errorf("%s: %v", name, err)
		}
		if err := CheckReleases(trust.Root{}, DesiredState{Settings: Settings{Agent: c.image}}, nil,
			time.Now()); err != nil {
			t.Errorf("%s, without a floor: %v", name, err)
		}
	}
}
