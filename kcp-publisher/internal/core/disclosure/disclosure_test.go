package disclosure

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

// The secrets are assembled from parts, so that secret scanners do not report this file.
var (
	privateKey = "-----BEGIN " + "EC PRIVATE KEY-----\nMHcCAQEEIA==\n-----END EC PRIVATE KEY-----\n"
	ghToken    = "ghp" + "_" + strings.Repeat("a1", 18)
	jwt        = "eyJ" + "hbGciOiJFUzI1NiJ9." + "eyJ" + "zdWIiOiJhIn0xxxx." + strings.Repeat("s", 43)
)

func TestLikelySecretsAreDetectedByFormat(t *testing.T) {
	packed := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"Secret with data": {
			map[string]any{"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"password": "aHVudGVyMg=="}},
			"spec.data.data appears to contain the content of a Secret",
		},
		"Secret with stringData": {
			map[string]any{"apiVersion": "v1", "kind": "Secret", "stringData": map[string]any{"password": "hunter2"}},
			"spec.data.stringData appears to contain the content of a Secret",
		},
		"Secret in a list": {
			map[string]any{
				"kind": "List", "items": []any{
					map[string]any{}, map[string]any{
						"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"a": "YQ=="},
					},
				},
			},
			"spec.data.items[1].data appears to contain",
		},
		"private key": {
			map[string]any{"tls": map[string]any{"key": privateKey}},
			"spec.data.tls.key appears to contain a private key",
		},
		"private key inside a script": {
			map[string]any{"script": "cat <<E\n" + privateKey + "E"},
			"spec.data.script appears to contain a private key",
		},
		"private key in base64": {
			map[string]any{"key": packed(privateKey)}, "spec.data.key appears to contain a private key",
		},
		"PGP private key": {
			map[string]any{"key": "-----BEGIN PGP " + "PRIVATE KEY BLOCK-----"},
			"spec.data.key appears to contain a private key",
		},
		"age identity": {
			map[string]any{"key": "AGE-SECRET-KEY-" + "1" + strings.Repeat("Q", 58)},
			"spec.data.key appears to contain an age identity",
		},
		"GitHub token": {
			map[string]any{"args": []any{"--token", ghToken}},
			"spec.data.args[1] appears to contain a GitHub token",
		},
		"GitHub token in base64": {
			map[string]any{"t": packed("token=" + ghToken)}, "spec.data.t appears to contain a GitHub token",
		},
		"AWS token": {
			map[string]any{"id": "AKIA" + strings.Repeat("Z", 16)}, "spec.data.id appears to contain an AWS token",
		},
		"JSON Web Token": {
			map[string]any{"header": "Bearer " + jwt}, "spec.data.header appears to contain a JSON Web Token",
		},
		"registry password of this fleet": {
			map[string]any{"p": "kpr1" + ".1." + strings.Repeat("x", 43)},
			"spec.data.p appears to contain a kyma-pull token",
		},
		"Docker config": {
			map[string]any{"c": `{"auths":{"r.example":{"auth": "dTpwYXNz"}}}`},
			"spec.data.c appears to contain registry credentials",
		},
		"password in a URL": {
			map[string]any{"u": "postgres://" + "admin:hunter2@db/x"},
			"spec.data.u appears to contain a password in a URL",
		},
		"field name with dots": {map[string]any{"a.b/c": ghToken}, `spec.data["a.b/c"] appears to contain`},
		"secret as a field name": {
			map[string]any{ghToken: "x"}, "spec.data appears to contain a GitHub token as a field name",
		},
		"first of two fields with secrets is reported": {
			map[string]any{"b": ghToken, "a": privateKey}, "spec.data.a appears to contain",
		},

		"reference to a Secret": {map[string]any{"apiVersion": "v1", "kind": "Secret", "name": "x"}, ""},
		"Secret without content": {
			map[string]any{"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"a": ""}}, "",
		},
		"kind Secret in another API group": {
			map[string]any{"apiVersion": "example.com/v1", "kind": "Secret", "data": map[string]any{"a": "b"}}, "",
		},
		"public key": {
			map[string]any{"key": "-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----"}, "",
		},
		"certificate": {
			map[string]any{"ca": packed("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")}, "",
		},
		"text about keys": {
			map[string]any{"description": "put the PRIVATE KEY into a Secret, never a ghp_ token here"}, "",
		},
		"digest": {map[string]any{"digest": "sha256:" + strings.Repeat("ab", 32)}, ""},
		"image reference with port and digest": {
			map[string]any{"image": "registry.example:5000/a/b:1.0@sha256:" + strings.Repeat("ab", 32)}, "",
		},
		"URL with a user name": {map[string]any{"u": "ssh://git@github.com/a/b"}, ""},
		"URL with placeholders": {
			map[string]any{"u": "https://$(USER):$(PASSWORD)@db/x", "v": "https://{{.u}}:{{.p}}@db",
				"w": "https://<user>:<password>@x"}, "",
		},
		"URL with a port":                    {map[string]any{"u": "https://registry.example:5000/@scope/x"}, ""},
		"numbers, null and booleans":         {map[string]any{"a": 1.0, "b": nil, "c": true}, ""},
		"field in the list of public fields": {map[string]any{"example": map[string]any{"token": ghToken}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, found := FindSecret(c.value, "spec.data", []string{"spec.data.example"})
			if !found && c.want != "" || found && (c.want == "" || !strings.HasPrefix(got.String(), c.want)) {
				t.Errorf("got %v %q, want %q", found, got, c.want)
			}
			for _, secret := range []string{"hunter2", "MHcCAQEEIA", "a1a1a1"} {
				if strings.Contains(got.String(), secret) {
					t.Errorf("the error contains the value: %s", got)
				}
			}
		})
	}
}

func FuzzFind(f *testing.F) {
	f.Add(`{"a":["b",{"kind":"Secret"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var value any
		if json.Unmarshal([]byte(text), &value) != nil {
			return
		}
		first, ok := FindSecret(value, "spec", nil)
		again, okAgain := FindSecret(value, "spec", nil)
		if first != again || ok != okAgain {
			t.Errorf("two calls differ: got %v, then %v", first, again)
		}
	})
}
