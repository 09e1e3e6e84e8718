package kind

import (
	"strings"
	"testing"

	"sigs.k8s.io/kind/pkg/apis/config/defaults"
	"sigs.k8s.io/yaml"
)

func TestOrdinaryMachineUsesKindDefaults(t *testing.T) {
	for _, c := range []struct {
		name    string
		machine machine
		has     []string
		hasNot  []string
	}{
		{
			"ordinary machine", machine{nodeImage: defaults.Image}, nil, []string{
				"disableDefaultCNI", "restrict_oom_score_adj", "failCgroupV1",
			},
		},
		{
			"machine that cannot pull images", machine{nodeImage: ownNodeImage + "v1"}, []string{"disableDefaultCNI"},
			[]string{"restrict_oom_score_adj", "failCgroupV1"},
		},
		{
			"machine with cgroups version 1", machine{nodeImage: defaults.Image, oldCgroups: true},
			[]string{"failCgroupV1: false"}, []string{"restrict_oom_score_adj"},
		},
		{
			"machine that withholds capabilities", machine{nodeImage: defaults.Image, lacksSysResource: true},
			[]string{"restrict_oom_score_adj = true"}, []string{"failCgroupV1"},
		},
	} {
		config := c.machine.config()
		if err := yaml.Unmarshal([]byte(config), &map[string]any{}); err != nil {
			t.Errorf("%s: parse the configuration: %v\n%s", c.name, err, config)
		}
		for _, text := range c.has {
			if !strings.Contains(config, text) {
				t.Errorf("%s: configuration lacks %s:\n%s", c.name, text, config)
			}
		}
		for _, text := range c.hasNot {
			if strings.Contains(config, text) {
				t.Errorf("%s: configuration has %s:\n%s", c.name, text, config)
			}
		}
	}
}

func TestMissingCapabilitiesAreDetected(t *testing.T) {
	for status, want := range map[string]bool{
		"CapBnd:\t000001fffeffffff\n": true,
		"CapBnd:\t000001ffffffffff\n": false,
		"Name:\tx\n":                  false,
		"CapBnd:\tsomething\n":        false,
		"CapBnd:":                     false,
	} {
		if got := lacksSysResource(status); got != want {
			t.Errorf("status %q: lacksSysResource returned %t, want %t", status, got, want)
		}
	}
}

func TestConcurrentKindRunIsRejected(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	lock, err := claim()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := claim(); err == nil || !strings.Contains(err.Error(), "held by another run") {
		t.Errorf("claim during another run: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := claim(); err != nil {
		t.Errorf("claim after the other run: %v", err)
	}
}

func TestCleanupRemovesOnlyResourcesFromTestRuns(t *testing.T) {
	ours := map[string][]string{
		"container": {"kyma-pull-test-kcp-control-plane", "kyma-pull-test-registry"},
		"volume":    {"kyma-pull-test-registry"}, "network": {"kyma-pull-test-net"},
		"image": {
			"kyma-pull.test/skr-agent:bad", "kyma-pull.test/kcp-publisher:test", "kyma-pull.dev/beacon-operator:1.0.0",
		},
	}
	others := []string{
		"kyma-pull-kcp-control-plane", "kyma-pull-kind-node-build", "kyma-pull/kind-node:v1",
		"kyma-pull.test/skr-agent:mine", "kind", "<none>:<none>",
	}
	for _, m := range objectTypes {
		what := m.list[0]
		for _, name := range ours[what] {
			if !m.ours(name) {
				t.Errorf("%s %s of an earlier run would not be removed", what, name)
			}
		}
		for _, name := range others {
			if m.ours(name) {
				t.Errorf("%s %s, which no run created, would be removed", what, name)
			}
		}
	}
}

func TestDroppedPacketsAreCounted(t *testing.T) {
	rules := "Chain KYMA-PULL-LINK (2 references)\n    pkts      bytes target     prot opt in     out     source     " +
		"          destination\n" +
		"      12      720 DROP       0    --  *      *       0.0.0.0/0            0.0.0.0/0\n"
	if n, err := droppedPackets(rules); n != 12 || err != nil {
		t.Errorf("got %d dropped packets and error %v, want 12", n, err)
	}
	if _, err := droppedPackets("Chain KYMA-PULL-LINK (0 references)\n"); err == nil {
		t.Error("dropped accepted an empty chain")
	}
}

func TestMemoryExcludesReclaimableFiles(t *testing.T) {
	got, err := parseMemory("300\n500\n1000\n100")
	if want := (Memory{WorkingSet: 200, Peak: 500, Limit: 1000}); got != want || err != nil {
		t.Errorf("got %+v and error %v, want %+v", got, err, want)
	}
	for _, output := range []string{"", "300\n500\nmax\n100", "300\n500\n1000"} {
		if _, err := parseMemory(output); err == nil {
			t.Errorf("invalid output %q was accepted", output)
		}
	}
}
