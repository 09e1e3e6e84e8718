package manager

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// asProcess makes the test program print its identity as the holder of the named lease, and run until its input ends.
const asProcess = "TEST_HOLDER_OF_LEASE"

func TestMain(m *testing.M) {
	if lease := os.Getenv(asProcess); lease != "" {
		holder, err := identity(lease)
		fmt.Println(holder, err)
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// start starts a process with an environment. It returns its identity and a function that kills it.
func start(t *testing.T, lease string, env ...string) (holder string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append(env, asProcess+"="+lease)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill() // it may have exited
		_ = cmd.Wait()
		_ = stdin.Close()
	}
	t.Cleanup(kill)
	var failure string
	if _, err := fmt.Fscanln(stdout, &holder, &failure); err != nil || failure != "<nil>" {
		t.Fatal(err, holder, failure)
	}
	return holder, kill
}

func TestRestartedProcessKeepsItsIdentity(t *testing.T) {
	uid := t.TempDir()
	for name, c := range map[string]struct {
		env  []string
		want string
	}{
		"a container in its Pod": {
			[]string{podName + "=skr-agent-7d9c-x2x", podUID + "=" + uid}, "skr-agent-7d9c-x2x_" + uid,
		},
		"a process without a Pod": {[]string{podName + "=", podUID + "="}, ""},
		"a container without a known UID": {
			[]string{podName + "=skr-agent-7d9c-x2x", podUID + "="}, "skr-agent-7d9c-x2x_",
		},
	} {
		first, kill := start(t, uid+name, c.env...)
		kill()
		second, _ := start(t, uid+name, c.env...)
		if first != second || !strings.HasPrefix(first, c.want) {
			t.Errorf("%s: %s, and %s after a restart, want the same with prefix %q", name, first, second, c.want)
		}
	}
}

func TestRunningProcessesNeverShareAnIdentity(t *testing.T) {
	uid := podUID + "=" + t.TempDir()
	for name, env := range map[string][2][]string{
		"two programs on one host": {{podName + "="}, {podName + "="}},
		"a program in a Pod and one started in its container": {
			{podName + "=publisher-0", uid}, {podName + "=publisher-0", uid},
		},
		"Pods of one name, the node of the first is cut off": {
			{podName + "=publisher-1", uid}, {podName + "=publisher-1", podUID + "=another"},
		},
		"Pods of one name without known UIDs": {
			{podName + "=publisher-2", podUID + "="}, {podName + "=publisher-2", podUID + "="},
		},
	} {
		one, _ := start(t, uid+name, env[0]...)
		two, _ := start(t, uid+name, env[1]...)
		if one == two {
			t.Errorf("%s: both are %s", name, one)
		}
	}
}

// An agent of each runtime can run on one host, as in the demo.
func TestHoldersOfDifferentLeasesDoNotCompeteForAName(t *testing.T) {
	lease, env := t.TempDir(), []string{podName + "=", podUID + "="}
	_, _ = start(t, lease+"/one", env...)
	first, kill := start(t, lease+"/two", env...)
	kill()
	if second, _ := start(t, lease+"/two", env...); first != second {
		t.Errorf("%s is %s after a restart", first, second)
	}
}
