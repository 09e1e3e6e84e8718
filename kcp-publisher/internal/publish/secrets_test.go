package publish

import (
	"slices"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

func secret(module, name, revision string) bundle.RuntimeSecret {
	return bundle.RuntimeSecret{
		Namespace: "kyma-system", Name: name, Data: map[string][]byte{"a": []byte("b")}, Module: module,
		Revision: revision,
	}
}

func TestBundleListsSecretsAndRemovals(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	to := identity.Recipient().String()
	published := func(secrets ...bundle.RuntimeSecret) *plan.Published {
		sealed, err := (bundle.Secrets{Secrets: secrets}).Seal("one", to)
		if err != nil {
			t.Fatal(err)
		}
		return &plan.Published{Predicate: bundle.Predicate{Sealed: sealed}}
	}
	keda, all, huge := secret("keda", "login", "1"), secret("", "pull", "1"), secret("keda", "huge", "1")
	huge.Data["a"] = make([]byte, bundle.MaxSealedBytes)
	for name, c := range map[string]struct {
		last     *plan.Published
		secrets  *plan.Secrets
		change   func(*plan.Runtime)
		there    []string // nil if the bundle keeps the last one's Secrets
		removals []string
		err      string
	}{
		"nothing was ever there": {nil, &plan.Secrets{Recipient: to}, nil, nil, nil, ""},
		"a module that is asked for gets its Secret": {
			nil, &plan.Secrets{Recipient: to, All: []bundle.RuntimeSecret{keda}}, nil, []string{"login"}, nil, "",
		},
		"one for no module in particular is there": {
			nil, &plan.Secrets{Recipient: to, All: []bundle.RuntimeSecret{all}}, nil, []string{"pull"}, nil, "",
		},
		"equal Secrets are not sealed anew": {
			published(keda), &plan.Secrets{Recipient: to, All: []bundle.RuntimeSecret{keda}}, nil, nil, nil, "",
		},
		"another content is": {
			published(keda), &plan.Secrets{Recipient: to, All: []bundle.RuntimeSecret{secret("keda", "login", "2")}},
			nil,
			[]string{"login"}, nil, "",
		},
		"a module that is not requested has none": {
			nil, &plan.Secrets{Recipient: to, All: []bundle.RuntimeSecret{secret("nats", "login", "1")},
				Known: []string{"kyma-system/login"}}, nil, []string{}, []string{"kyma-system/login"}, "",
		},
		"a module keeps it until it is gone": {
			nil, &plan.Secrets{Recipient: to, All: []bundle.RuntimeSecret{secret("nats", "login", "1")}},
			func(r *plan.Runtime) { r.Installed = []string{"nats"} }, []string{"login"}, nil, "",
		},
		"a deleted Secret is announced": {
			published(keda, all),
			&plan.Secrets{Recipient: to, All: []bundle.RuntimeSecret{all},
				Known: []string{"kyma-system/login", "kyma-system/pull"}}, nil, []string{"pull"},
			[]string{"kyma-system/login"}, "",
		},
		"an unknown Secret is not announced": {
			published(keda, all), &plan.Secrets{Recipient: to, All: []bundle.RuntimeSecret{all}}, nil,
			[]string{"pull"}, nil,
			"",
		},
		"no Secret is announced":         {published(keda), &plan.Secrets{Recipient: to}, nil, nil, nil, ""},
		"a silent runtime gets the same": {published(keda), nil, nil, nil, nil, ""},
		"one that is let go is, too": {
			published(keda), &plan.Secrets{Recipient: to, Known: []string{"kyma-system/login"}},
			func(r *plan.Runtime) { r.Deleting = true }, nil, nil, "",
		},
		"an agent that is too old": {
			nil, &plan.Secrets{All: []bundle.RuntimeSecret{keda}}, nil, nil, nil, "upgrade the agent",
		},
		"one that is too large costs only itself": {
			published(keda),
			&plan.Secrets{Recipient: to, All: []bundle.RuntimeSecret{keda, huge, all},
				Known: []string{"kyma-system/huge"}}, nil, []string{"login", "pull"}, nil, "secret kyma-system/huge: ",
		},
		"nothing but too much changes nothing": {
			published(keda), &plan.Secrets{Recipient: to, All: []bundle.RuntimeSecret{huge}}, nil, nil, nil,
			"make it smaller",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := plan.Runtime{ID: "one", Secrets: c.secrets}
			if c.change != nil {
				c.change(&r)
			}
			sealed, err := seal(r, c.last, []string{"keda"})
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v", err)
			}
			if c.there == nil {
				if c.last == nil && sealed != nil || c.last != nil && sealed != c.last.Predicate.Sealed {
					t.Errorf("sealed anew: %+v", sealed)
				}
				return
			}
			opened, err := sealed.Open("one", identity)
			if err != nil {
				t.Fatal(err)
			}
			var there []string
			for _, s := range opened.Secrets {
				there = append(there, s.Name)
			}
			if !slices.Equal(there, c.there) || !slices.Equal(opened.Removals, c.removals) {
				t.Errorf("there %v, removals %v", there, opened.Removals)
			}
		})
	}
}

func TestOlderAgentGetsASupportedBundle(t *testing.T) {
	last := &plan.Published{Predicate: bundle.Predicate{Sealed: &bundle.Sealed{Revision: "1"}}}
	for name, c := range map[string]struct {
		all     []bundle.RuntimeSecret
		trouble bool
	}{
		"with Secrets that wait": {[]bundle.RuntimeSecret{secret("", "login", "1")}, true},
		"without":                {nil, false},
	} {
		if sealed, err := seal(plan.Runtime{Secrets: &plan.Secrets{All: c.all}}, last, nil); sealed != nil ||
			(err != nil) != c.trouble {
			t.Errorf("%s: %+v, %v", name, sealed, err)
		}
	}
}
