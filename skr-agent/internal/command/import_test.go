package command

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory" // registers the storage driver
	"github.com/opencontainers/go-digest"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func TestImportPrintsProgressEvery64MiB(t *testing.T) {
	var out bytes.Buffer
	advance := printProgress(&out)
	for range 9 {
		advance(16 << 20)
	}
	advance(1 << 30)
	require.Equal(t, "checked and imported 64 MiB\nchecked and imported 128 MiB\nchecked and imported 1168 MiB\n",
		out.String())
}

// A later import finds the root at the target and does not print it.
func TestFailedImportPrintsTheRootThatItPinned(t *testing.T) {
	logrus.SetOutput(io.Discard)
	config := &configuration.Configuration{Storage: configuration.Storage{
		"inmemory": configuration.Parameters{}, "maintenance": configuration.Parameters{
			"uploadpurging": map[any]any{"enabled": false},
		},
	}}
	config.Log.Level, config.Log.AccessLog.Disabled, config.HTTP.Secret = "panic", true, "loopback"
	app := handlers.NewApp(context.WithoutCancel(t.Context()), config)
	refused := "/" + bundle.DesiredRepository("berlin") + "/"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refused != "" && r.Method != http.MethodGet && r.Method != http.MethodHead &&
			strings.Contains(r.URL.Path, refused) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		app.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	f := newFleet(t)
	f.publish(time.Now(), f.module("keda", f.release), f.module("nats", f.release))
	file, pinned := f.export(), "trusts     root of trust "+digest.FromBytes(f.root.Raw).String()
	to := strings.TrimPrefix(server.URL, "http://") + "/fleet"

	code, output := execute("import", file, "--to", to)
	require.Equal(t, cli.ExitFailed, code, output)
	require.Contains(t, output, "403")
	require.Contains(t, output, pinned)

	refused = ""
	code, output = execute("import", file, "--to", to)
	require.Equal(t, cli.ExitDone, code, output)
	require.NotContains(t, output, pinned)
}
