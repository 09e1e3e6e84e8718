package kind

import (
	"strings"
	"testing"

	"sigs.k8s.io/kind/pkg/apis/config/defaults"
	"sigs.k8s.io/yaml"
)

func TestOrdinaryMachinesGetKindsDefaults(t *testing.T) {
	for _, c := range []struct {
		name    string
		machine machine
		has     []string
		hasNot  []string
	}{
		{"an ordinary machine", machine{nodeImage: defaults.Image}, nil, []string{"disableDefaultCNI", "restrict_oom_score_adj", "failCgroupV1"}},
		{"one that cannot pull", machine{nodeImage: ownNodeImage + "v1"}, []string{"disableDefaultCNI"}, []string{"restrict_oom_score_adj", "failCgroupV1"}},
		{"one with old cgroups", machine{nodeImage: defaults.Image, oldCgroups: true}, []string{"failCgroupV1: false"}, []string{"restrict_oom_score_adj"}},
		{"one that withholds capabilities", machine{nodeImage: defaults.Image, withholds: true}, []string{"restrict_oom_score_adj = true"}, []string{"failCgroupV1"}},
	} {
		config := c.machine.config()
		if err := yaml.Unmarshal([]byte(config), &map[string]any{}); err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, config)
		}
		for _, text := range c.has {
			if !strings.Contains(config, text) {
				t.Errorf("%s lacks %s:\n%s", c.name, text, config)
			}
		}
		for _, text := range c.hasNot {
			if strings.Contains(config, text) {
				t.Errorf("%s has %s:\n%s", c.name, text, config)
			}
		}
	}
}

func TestWithheldCapabilitiesAreSeen(t *testing.T) {
	for status, want := range map[string]bool{
		"CapBnd:\t000001fffeffffff\n": true,
		"CapBnd:\t000001ffffffffff\n": false,
		"Name:\tx\n":                  false,
		"CapBnd:\tsomething\n":        false,
		"CapBnd:":                     false,
	} {
		if got := withholds(status); got != want {
			t.Errorf("%q: %t", status, got)
		}
	}
}

func TestDroppedPacketsAreCounted(t *testing.T) {
	rules := "Chain KYMA-PULL-LINK (2 references)\n    pkts      bytes target     prot opt in     out     source               destination\n" +
		"      12      720 DROP       0    --  *      *       0.0.0.0/0            0.0.0.0/0\n"
	if n, err := dropped(rules); n != 12 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := dropped("Chain KYMA-PULL-LINK (0 references)\n"); err == nil {
		t.Error("an empty chain was taken for a link that drops")
	}
}
