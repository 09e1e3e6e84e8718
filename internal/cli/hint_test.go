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
)

func TestRegistryRefusalNamesTheFlag(t *testing.T) {
	answer := func(status int) error {
		return fmt.Errorf("push: %w", &errcode.ErrorResponse{
			Method: http.MethodPut, URL: &url.URL{Scheme: "https", Host: "registry.example"}, StatusCode: status,
		})
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"it knows nobody": {
			answer(http.StatusUnauthorized),
			"hint: registry.example accepts no request without a user and password, or not with these: name a docker " +
				"config.json that has them with --registry-config",
		},
		"it denies a user": {answer(http.StatusForbidden), "hint: registry.example does not let this user do that"},
		"it is broken":     {answer(http.StatusBadGateway), ""},
		"something else":   {errors.New("no such file"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			root := &cobra.Command{
				Use: "kcp-publisher", SilenceErrors: true, SilenceUsage: true,
				RunE: func(*cobra.Command, []string) error { return c.err },
			}
			if code := Execute(root, nil, nil, &out, &out); code != ExitFailed {
				t.Errorf("exit code %d", code)
			}
			if !strings.Contains(out.String(), c.want) || c.want == "" && strings.Contains(out.String(), "hint") {
				t.Errorf("got %s", out.String())
			}
		})
	}
}
