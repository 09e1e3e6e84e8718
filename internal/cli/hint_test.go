package cli

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

func TestRegistryErrorHintNamesTheFlag(t *testing.T) {
	answer := func(status int) error {
		return fmt.Errorf("push: %w", &errcode.ErrorResponse{
			Method: http.MethodPut, URL: &url.URL{Scheme: "https", Host: "registry.example"}, StatusCode: status,
		})
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"missing credentials": {
			answer(http.StatusUnauthorized),
			"hint: registry.example requires valid credentials: set --registry-config to a docker config.json with a " +
				"user and password for this registry",
		},
		"missing data": {
			fmt.Errorf("fetch: %w", store.ErrNotFound),
			"hint: the location does not contain this data: check the registry prefix",
		},
		"missing permission":   {answer(http.StatusForbidden), "hint: registry.example denied the request"},
		"unavailable registry": {answer(http.StatusBadGateway), ""},
		"unrelated error":      {errors.New("no such file"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			root := &cobra.Command{
				Use: "kcp-publisher", SilenceErrors: true, SilenceUsage: true,
				RunE: func(*cobra.Command, []string) error { return c.err },
			}
			if code := Execute(root, nil, nil, &out, &out); code != ExitFailed {
				t.Errorf("got exit code %d, want %d", code, ExitFailed)
			}
			if !strings.Contains(out.String(), c.want) || c.want == "" && strings.Contains(out.String(), "hint") {
				t.Errorf("got output %s, want %q", out.String(), c.want)
			}
		})
	}
}
