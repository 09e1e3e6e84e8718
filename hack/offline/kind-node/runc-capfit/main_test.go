package main

import "testing"

func TestUnavailableCapabilitiesAreRemoved(t *testing.T) {
	held, err := boundingSet([]byte("Name:\tx\nCapBnd:\t000001fffeffffff\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, config, want string }{
		{"container configuration",
			`{"process":{"capabilities":{"bounding":["CAP_CHOWN","CAP_SYS_RESOURCE"]},"limit":9223372036854775807}}`,
			`{"process":{"capabilities":{"bounding":["CAP_CHOWN"]},"limit":9223372036854775807}}`},
		{
			"process of an exec", `{"capabilities":{"effective":["CAP_SYS_RESOURCE"]}}`,
			`{"capabilities":{"effective":[]}}`,
		},
		{"process without capabilities", `{"process":{}}`, `{"process":{}}`},
		{
			"capability of a newer kernel", `{"capabilities":{"effective":["CAP_NEW"]}}`,
			`{"capabilities":{"effective":[]}}`,
		},
	} {
		got, err := fitted([]byte(c.config), held)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v", c.name, got, err)
		}
	}
	if _, err := boundingSet([]byte("Name:\tx\n")); err == nil {
		t.Error("boundingSet accepted a status without CapBnd")
	}
}

func TestRuncCommandSpecFileIsFound(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--root", "/run/x", "create", "--bundle", "/b", "id"}, "/b/config.json"},
		{[]string{"run", "--bundle=/b", "id"}, "/b/config.json"},
		{[]string{"create", "id"}, "config.json"},
		{[]string{"exec", "--process", "/p.json", "id"}, "/p.json"},
		{[]string{"exec", "id", "sh"}, ""},
		{[]string{"kill", "id"}, ""},
	} {
		if got := document(c.args); got != c.want {
			t.Errorf("%v: %q, want %q", c.args, got, c.want)
		}
	}
}
