package manager

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// asProcess is the name of an environment variable. If its value is the name of a lease, the test binary prints its
// identity for the lease and runs until stdin is closed.
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

// start starts the test binary as another process. It returns the process's identity and a function that kills it.
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
		_ = cmd.Process.Kill() // fails if the process has already exited
		_ = cmd.Wait()
		_ = stdin.Close()
	}
	t.Cleanup(kill)
	var failure string
	if _, err := fmt.Fscanln(stdout, &holder, &failure); err != nil || failure != "<nil>" {
		t.Fatalf("got holder %q and error %q from the process, read error %v", holder, failure, err)
	}
	return holder, kill
}

func TestRestartedProcessKeepsItsIdentity(t *testing.T) {
	uid := t.TempDir()
	for name, c := range map[string]struct {
		env  []string
		want string
	}{
		"container in a Pod": {
			[]string{podName + "=skr-agent-7d9c-x2x", podUID + "=" + uid}, "skr-agent-7d9c-x2x_" + uid,
		},
		"process outside of a Pod": {[]string{podName + "=", podUID + "="}, ""},
		"container without the Pod's UID": {
			[]string{podName + "=skr-agent-7d9c-x2x", podUID + "="}, "skr-agent-7d9c-x2x_",
		},
	} {
		first, kill := start(t, uid+name, c.env...)
		kill()
		second, _ := start(t, uid+name, c.env...)
		if first != second || !strings.HasPrefix(first, c.want) {
			t.Errorf("%s: got identity %s, and %s after a restart, want equal ones with prefix %q", name, first, second,
				c.want)
		}
	}
}

func TestRunningProcessesHaveDifferentIdentities(t *testing.T) {
	uid := podUID + "=" + t.TempDir()
	for name, env := range map[string][2][]string{
		"two processes on one host": {{podName + "="}, {podName + "="}},
		"two processes in one container": {
			{podName + "=publisher-0", uid}, {podName + "=publisher-0", uid},
		},
		"Pods with the same name and different UIDs": {
			{podName + "=publisher-1", uid}, {podName + "=publisher-1", podUID + "=another"},
		},
		"Pods with the same name without UIDs": {
			{podName + "=publisher-2", podUID + "="}, {podName + "=publisher-2", podUID + "="},
		},
	} {
		one, _ := start(t, uid+name, env[0]...)
		two, _ := start(t, uid+name, env[1]...)
		if one == two {
			t.Errorf("%s: both processes have identity %s", name, one)
		}
	}
}

// Several runtimes' agents can run on one host, as in the demo.
func TestProcessesWithDifferentLeasesKeepTheirIdentities(t *testing.T) {
	lease, env := t.TempDir(), []string{podName + "=", podUID + "="}
	_, _ = start(t, lease+"/one", env...)
	first, kill := start(t, lease+"/two", env...)
	kill()
	if second, _ := start(t, lease+"/two", env...); first != second {
		t.Errorf("got identity %s after a restart, want %s", second, first)
	}
}
