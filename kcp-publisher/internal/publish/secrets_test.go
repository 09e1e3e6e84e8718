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

func TestSealedSecretsDependOnModulesAndChanges(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	to := identity.Recipient().String()
	published := func(secrets ...bundle.RuntimeSecret) *plan.PublishedBundle {
		sealed, err := (bundle.Secrets{Secrets: secrets}).Seal("one", to)
		if err != nil {
			t.Fatal(err)
		}
		return &plan.PublishedBundle{Predicate: bundle.Predicate{Sealed: sealed}}
	}
	keda, all, huge := secret("keda", "login", "1"), secret("", "pull", "1"), secret("keda", "huge", "1")
	huge.Data["a"] = make([]byte, bundle.MaxSealedBytes)
	for name, c := range map[string]struct {
		last     *plan.PublishedBundle
		secrets  *plan.RuntimeSecrets
		change   func(*plan.Runtime)
		want     []string // expected Secrets; nil if the last bundle's Secrets are kept
		removals []string
		err      string
	}{
		"runtime without Secrets": {nil, &plan.RuntimeSecrets{Recipient: to}, nil, nil, nil, ""},
		"Secret of a requested module": {
			nil, &plan.RuntimeSecrets{Recipient: to, Published: []bundle.RuntimeSecret{keda}}, nil, []string{"login"}, nil, "",
		},
		"Secret without a module": {
			nil, &plan.RuntimeSecrets{Recipient: to, Published: []bundle.RuntimeSecret{all}}, nil, []string{"pull"}, nil, "",
		},
		"unchanged Secrets": {
			published(keda), &plan.RuntimeSecrets{Recipient: to, Published: []bundle.RuntimeSecret{keda}}, nil, nil, nil, "",
		},
		"changed Secret": {
			published(keda), &plan.RuntimeSecrets{Recipient: to,
				Published: []bundle.RuntimeSecret{secret("keda", "login", "2")}},
			nil,
			[]string{"login"}, nil, "",
		},
		"Secret of a module that is not requested": {
			nil, &plan.RuntimeSecrets{Recipient: to, Published: []bundle.RuntimeSecret{secret("nats", "login", "1")},
				KnownNames: []string{"kyma-system/login"}}, nil, []string{}, []string{"kyma-system/login"}, "",
		},
		"Secret of a module that is still installed": {
			nil, &plan.RuntimeSecrets{Recipient: to, Published: []bundle.RuntimeSecret{secret("nats", "login", "1")}},
			func(r *plan.Runtime) { r.Installed = []string{"nats"} }, []string{"login"}, nil, "",
		},
		"deleted Secret": {
			published(keda, all),
			&plan.RuntimeSecrets{Recipient: to, Published: []bundle.RuntimeSecret{all},
				KnownNames: []string{"kyma-system/login", "kyma-system/pull"}}, nil, []string{"pull"},
			[]string{"kyma-system/login"}, "",
		},
		"deleted Secret that was not recorded": {
			published(keda, all), &plan.RuntimeSecrets{Recipient: to, Published: []bundle.RuntimeSecret{all}}, nil,
			[]string{"pull"}, nil,
			"",
		},
		"all Secrets deleted, none recorded": {published(keda), &plan.RuntimeSecrets{Recipient: to}, nil, nil, nil, ""},
		"Secrets that were not read":         {published(keda), nil, nil, nil, nil, ""},
		"Kyma is being deleted": {
			published(keda), &plan.RuntimeSecrets{Recipient: to, Published: []bundle.RuntimeSecret{keda},
				RecordedNames: []string{"kyma-system/login", "kyma-system/huge"}},
			func(r *plan.Runtime) { r.IsDeleting = true }, []string{}, []string{"kyma-system/login", "kyma-system/huge"}, "",
		},
		"Kyma without recorded Secrets is being deleted": {
			published(keda), &plan.RuntimeSecrets{Recipient: to}, func(r *plan.Runtime) { r.IsDeleting = true }, nil, nil, "",
		},
		"agent without a recipient": {
			nil, &plan.RuntimeSecrets{Published: []bundle.RuntimeSecret{keda}}, nil, nil, nil, "upgrade the agent",
		},
		"three Secrets, one of them too large": {
			published(keda),
			&plan.RuntimeSecrets{Recipient: to, Published: []bundle.RuntimeSecret{keda, huge, all},
				KnownNames: []string{"kyma-system/huge"}}, nil, []string{"login", "pull"}, nil, "secret kyma-system/huge: ",
		},
		"one Secret that is too large": {
			published(keda), &plan.RuntimeSecrets{Recipient: to, Published: []bundle.RuntimeSecret{huge}}, nil, nil, nil,
			"make it smaller",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := plan.Runtime{ID: "one", Secrets: c.secrets}
			if c.change != nil {
				c.change(&r)
			}
			sealed, _, err := sealSecrets(r, c.last, []string{"keda"})
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("got error %v, want %q", err, c.err)
			}
			if c.want == nil {
				if c.last == nil && sealed != nil || c.last != nil && sealed != c.last.Predicate.Sealed {
					t.Errorf("got %+v, want the last bundle's Secrets", sealed)
				}
				return
			}
			opened, err := sealed.Open("one", identity)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range opened.Secrets {
				got = append(got, s.Name)
			}
			if !slices.Equal(got, c.want) || !slices.Equal(opened.Removals, c.removals) {
				t.Errorf("got Secrets %v and removals %v, want %v and %v", got, opened.Removals, c.want, c.removals)
			}
		})
	}
}

func TestAgentWithoutRecipientGetsBundleWithoutSecrets(t *testing.T) {
	last := &plan.PublishedBundle{Predicate: bundle.Predicate{Sealed: &bundle.Sealed{Revision: "1"}}}
	for name, c := range map[string]struct {
		all     []bundle.RuntimeSecret
		trouble bool
	}{
		"Secrets configured":    {[]bundle.RuntimeSecret{secret("", "login", "1")}, true},
		"no Secrets configured": {nil, false},
	} {
		if sealed, _, err := sealSecrets(plan.Runtime{Secrets: &plan.RuntimeSecrets{Published: c.all}}, last,
			nil); sealed != nil ||
			(err != nil) != c.trouble {
			t.Errorf("%s: got %+v, %v, want no Secrets and error %t", name, sealed, err, c.trouble)
		}
	}
}

func TestSecretsForTheAgentsFormerKeyAreDropped(t *testing.T) {
	former, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := (bundle.Secrets{Removals: []string{"kyma-system/login"}}).Seal("one", former.Recipient().String())
	if err != nil {
		t.Fatal(err)
	}
	last := &plan.PublishedBundle{Predicate: bundle.Predicate{Sealed: sealed}}
	r := plan.Runtime{ID: "one", Secrets: &plan.RuntimeSecrets{Recipient: identity.Recipient().String()}}
	if got, _, err := sealSecrets(r, last, nil); got != nil || err != nil {
		t.Errorf("got %+v and error %v, want no Secrets", got, err)
	}
}
