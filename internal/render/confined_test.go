package render

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// TestMain runs the render process instead of the tests if the binary was started with an argument.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 {
		switch os.Args[1] {
		case "render":
			if err := Child(os.Stdin, os.Stdout); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		case "parent":
			_, err := Confined{Command: []string{os.Args[0], "render"},
				CPUTime: time.Minute}.Render(context.Background(), Input{
				Packed: v1beta2.HelmChart, Release: "sample", Kubernetes: kubernetes, Content: readAll(os.Stdin),
			})
			fmt.Println(err)
			os.Exit(0)
		case "wait":
			time.Sleep(time.Hour)
		case "confess":
			tryForbiddenActions()
			os.Exit(0)
		case "flood":
			for range 2 * maxAnswerBytes >> 20 {
				_, _ = os.Stdout.Write(make([]byte, 1<<20))
			}
			os.Exit(0)
		case "garbage":
			fmt.Println("{]")
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

func confined(t testing.TB) Confined {
	program, err := os.Executable()
	require.NoError(t, err)
	return Confined{Command: []string{program, "render"}, MemoryBytes: 256 << 20}
}

func TestRenderProcessReturnsTheSameResultAsRender(t *testing.T) {
	members, values := scenario(t, "testdata/charts/everything.txtar")
	overlay, _ := scenario(t, "testdata/overlays/production.txtar")
	numbers := "apiVersion: v1\nkind: Numbers\nmetadata: {name: n}\nspec: {big: 9007199254740993, float: 1.5, whole: " +
		"1.0, exp: 1e3, none: null, text: \"<&>\"}\n"
	for name, in := range map[string]Input{
		"chart": {
			Content: archive(t, members...), Packed: v1beta2.HelmChart, Values: values, Release: "big",
			Kubernetes: kubernetes,
		},
		"kustomization":      {Content: archive(t, overlay...), Packed: v1beta2.Kustomize, Path: "overlays/production"},
		"YAML":               {Content: []byte(numbers)},
		"chart with numbers": chartWith(t, numbers),
		"invalid chart":      chartWith(t, "kind: A\n"),
	} {
		t.Run(name, func(t *testing.T) {
			want, wantErr := Render(in)
			got, err := confined(t).Render(t.Context(), in)
			require.Equal(t, want, got)
			if wantErr != nil {
				require.EqualError(t, err, wantErr.Error())
				return
			}
			require.NoError(t, err)
		})
	}
}

func TestConcurrentRenderingsLeaveNoProcesses(t *testing.T) {
	c := confined(t)
	in := chartWith(t, configMap("a"))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			objects, err := c.Render(t.Context(), in)
			if err != nil || len(objects) != 1 {
				t.Errorf("got %d objects, error %v, want 1 object", len(objects), err)
			}
		})
	}
	wg.Wait()
	require.Empty(t, children(t))
	require.Eventually(t, func() bool {
		stacks := make([]byte, 1<<20)
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "os/exec.(*Cmd)")
	}, time.Minute, 10*time.Millisecond, "goroutines of a child are still running")
}

func readAll(r io.Reader) []byte {
	data, err := io.ReadAll(r)
	if err != nil {
		panic(err)
	}
	return data
}

func TestRenderProcessEndsWithItsParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux, which can kill a child when its parent ends")
	}
	parent := exec.Command(confined(t).Command[0], "parent")
	parent.Stdin = bytes.NewReader(chartWith(t, endless).Content)
	require.NoError(t, parent.Start())
	var child string
	require.Eventually(t, func() bool {
		found := childrenOf(t, fmt.Sprint(parent.Process.Pid))
		if len(found) == 1 {
			child = found[0]
		}
		return child != ""
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, parent.Process.Kill())
	require.Error(t, parent.Wait())
	require.Eventually(t, func() bool {
		status, err := os.ReadFile("/proc/" + child + "/status")
		return err != nil || strings.Contains(string(status), "State:\tZ") ||
			strings.Contains(string(status), "State:\tX")
	}, time.Minute, 10*time.Millisecond, "the child is still running")
}

func children(t testing.TB) []string { return childrenOf(t, "self") }

// childrenOf returns the IDs of a process's child processes, including zombies.
func childrenOf(t testing.TB, pid string) []string {
	lists, err := filepath.Glob("/proc/" + pid + "/task/*/children")
	require.NoError(t, err)
	var all []string
	for _, list := range lists {
		data, err := os.ReadFile(list)
		if err == nil {
			all = append(all, strings.Fields(string(data))...)
		}
	}
	return all
}

const endless = `{{ define "again" }}{{ range until 10000 }}{{ range until 10000 }}{{ range until 10000 }}{{ end }}{{ end }}{{ end }}{{ end }}{{ include "again" . }}`

func TestCanceledRenderingEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	started := time.Now()
	_, err := confined(t).Render(ctx, chartWith(t, endless))
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, time.Since(started), time.Minute)
	require.Empty(t, children(t))
}

func TestFailureOfChildProcessIsNotAContentError(t *testing.T) {
	for name, command := range map[string][]string{
		"no command":                          nil,
		"missing program":                     {"/no/such/agent"},
		"failing program":                     {"/bin/false"},
		"program with invalid output":         {confined(t).Command[0], "garbage"},
		"program that waits without CPU time": {confined(t).Command[0], "wait"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Confined{Command: command, CPUTime: time.Second}.Render(t.Context(),
				chartWith(t, configMap("a")))
			require.ErrorIs(t, err, ErrNotRun)
			require.ErrorContains(t, err, "chart sample: rendering did not run")
		})
	}
}

func TestRenderProcessOutputIsLimited(t *testing.T) {
	_, err := Confined{Command: []string{confined(t).Command[0], "flood"}}.Render(t.Context(),
		chartWith(t, configMap("a")))
	require.ErrorContains(t, err, "rendering returned more than 32 MiB of objects")
}

// tryForbiddenActions runs in a child process, where it tries all forbidden actions and prints the results.
func tryForbiddenActions() {
	if err := restrictProcess(limits{MemoryBytes: 256 << 20, CPUSeconds: 10}); err != nil {
		fmt.Println(err)
	}
	values := map[string]string{"environment": fmt.Sprint(len(os.Environ()))}
	try := func(what string, err error) { values[what] = fmt.Sprint(err) }
	_, err := os.ReadFile("/etc/hostname")
	try("read", err)
	try("write", os.WriteFile("/tmp/confessed", nil, 0o600))
	_, err = net.Dial("tcp", "127.0.0.1:1")
	try("dial", err)
	limited, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err = net.DefaultResolver.LookupHost(limited, "example.org")
	try("resolve", err)
	try("run", exec.Command("/bin/true").Run())
	_ = json.NewEncoder(os.Stdout).Encode(values)
}

func TestRenderProcessCannotOpenFilesOrConnections(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux, because limits are supported only there")
	}
	child := confined(t)
	child.Command[1], child.CPUTime = "confess", 10*time.Second
	text, err := child.runChild(t.Context(), nil)
	require.NoError(t, err)
	var values map[string]string
	require.NoError(t, json.Unmarshal(text, &values), "%s", text)
	require.Equal(t, "0", values["environment"])
	for _, what := range []string{"read", "write", "dial", "run"} {
		require.Contains(t, values[what], "too many open files", what)
	}
	require.NotEqual(t, "<nil>", values["resolve"])
}
