package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"
)

// writeHelpers writes credential helpers as shell scripts into a new folder and adds this folder to PATH.
func writeHelpers(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(dir, helperPrefix+name), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

const printsCredentials = `read host
echo "{\"ServerURL\":\"$host\",\"Username\":\"AWS\",\"Secret\":\"for $host\"}"
`

func TestCredentialsComeFromTheFileOrItsHelpers(t *testing.T) {
	writeHelpers(t, map[string]string{
		"there": printsCredentials, "none": "echo credentials not found in native keychain; exit 1",
	})
	login := func(_ context.Context, host string) (*Login, error) {
		if host != "cloud.example" {
			return nil, nil
		}
		return &Login{Username: "cloud", Password: "by identity", Expires: time.Now().Add(time.Hour)}, nil
	}
	const inFile = `"auths":{"file.example":{"username":"one","password":"a"}}`
	for name, c := range map[string]struct {
		config, host, want, problem string
	}{
		"credentials in the file": {`{` + inFile + `,"credsStore":"there"}`, "file.example", "a", ""},
		"credentials from the host's helper": {
			`{"credHelpers":{"h.example":"there"}}`, "h.example", "for h.example", "",
		},
		"default helper for Docker Hub": {
			`{"credsStore":"there"}`, "registry-1.docker.io", "for https://index.docker.io/v1/", "",
		},
		"Docker Hub's helper": {
			`{"credHelpers":{"https://index.docker.io/v1/":"there"}}`, "registry-1.docker.io",
			"for https://index.docker.io/v1/", "",
		},
		"helper for another host":             {`{"credHelpers":{"h.example":"there"}}`, "other.example", "", ""},
		"credentials from the default helper": {`{"credsStore":"there"}`, "h.example", "for h.example", ""},
		"missing default helper":              {`{"credsStore":"desktop"}`, "h.example", "", ""},
		"helper without credentials":          {`{"credsStore":"none"}`, "h.example", "", ""},
		"missing helper for the host": {
			`{"credHelpers":{"h.example":"gone"}}`, "h.example", "", helperPrefix + "gone for registry h.example",
		},
		"login without a file":   {"", "cloud.example", "by identity", ""},
		"login, not the default": {`{"credsStore":"there"}`, "cloud.example", "by identity", ""},
		"helper for the host, no login": {
			`{"credHelpers":{"cloud.example":"there"}}`, "cloud.example", "for cloud.example", "",
		},
		"default helper, no login": {`{"credsStore":"there"}`, "h.example", "for h.example", ""},
	} {
		t.Run(name, func(t *testing.T) {
			find, err := storedCredentials([]byte(c.config), login)
			if err != nil {
				t.Fatal(err)
			}
			found, err := find(t.Context(), c.host)
			if found.Password != c.want || (err != nil) != (c.problem != "") ||
				err != nil && !strings.Contains(err.Error(), c.problem) {
				t.Errorf("got %q, %v, want %q, %q", found.Password, err, c.want, c.problem)
			}
		})
	}
}

func TestFailingCredentialHelperIsNamed(t *testing.T) {
	writeHelpers(t, map[string]string{
		"fails":   "echo the token file is missing; echo secret >&2; exit 3",
		"hangs":   "sleep 60",
		"forks":   "sleep 60 & exit 1",
		"endless": "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done",
		"text":    "echo my-password", "empty": "exit 0",
	})
	for name, want := range map[string]string{
		"fails": "exit status 3: the token file is missing", "hangs": "did not finish within", "forks": "",
		"endless": "more than", "text": "not a JSON object", "empty": "not a JSON object", "absent": "not in PATH",
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			found, err := runHelper(t.Context(), name, "h.example", 2*time.Second)
			if err == nil || found != auth.EmptyCredential {
				t.Fatalf("got %v, want an error", found)
			}
			if time.Since(start) > 20*time.Second {
				t.Errorf("the helper ran for %s, want about two seconds", time.Since(start))
			}
			for _, part := range []string{helperPrefix + name, "h.example", want} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %v, want %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "my-password") || strings.Contains(err.Error(), "secret") {
				t.Errorf("the error contains a secret: %v", err)
			}
		})
	}
	t.Run("canceled", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := runHelper(ctx, "hangs", "h.example", time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want a deadline error", err)
		}
	})
}

func TestIdentityTokenFromHelperIsUsed(t *testing.T) {
	writeHelpers(t, map[string]string{"token": `echo '{"Username":"<token>","Secret":"refresh"}'`})
	found, err := runHelper(t.Context(), "token", "h.example", time.Minute)
	if err != nil || found.RefreshToken != "refresh" || found.Password != "" {
		t.Errorf("got %v, %v, want a refresh token", found, err)
	}
}
