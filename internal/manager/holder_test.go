package manager

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// asProcess has the test program tell who it is as the holder of a lease, and live until its input ends.
const asProcess = "TEST_HOLDER_OF_LEASES"

func TestMain(m *testing.M) {
	if os.Getenv(asProcess) != "" {
		holder, err := identity()
		fmt.Println(holder, err)
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// start starts a process with an environment and returns its holder and how to kill it.
func start(t *testing.T, env ...string) (holder string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append(env, asProcess+"=1")...)
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
		_ = cmd.Process.Kill() // it may have ended
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

func TestAContainerThatStartsAgainHasTheLeaseOfTheOneBefore(t *testing.T) {
	name, uid := podName+"=skr-agent-7d9c-x2x", podUID+"="+t.TempDir()
	first, kill := start(t, name, uid)
	kill()
	second, _ := start(t, name, uid)
	if want := "skr-agent-7d9c-x2x_" + strings.TrimPrefix(uid, podUID+"="); first != want || second != want {
		t.Errorf("one after the other in a Pod are %s and %s, want %s", first, second, want)
	}
}

func TestNoTwoProcessesThatRunAreOneHolder(t *testing.T) {
	uid := podUID + "=" + t.TempDir()
	for what, env := range map[string][2][]string{
		"two programs on one host":                            {{podName + "="}, {podName + "="}},
		"a program in a Pod and one started in its container": {{podName + "=publisher-0", uid}, {podName + "=publisher-0", uid}},
		"Pods of one name, the node of the first is cut off":  {{podName + "=publisher-1", uid}, {podName + "=publisher-1", podUID + "=another"}},
		"Pods of one name that nobody told their UIDs":        {{podName + "=publisher-2", podUID + "="}, {podName + "=publisher-2", podUID + "="}},
	} {
		one, _ := start(t, env[0]...)
		two, _ := start(t, env[1]...)
		if one == two {
			t.Errorf("%s are both %s", what, one)
		}
	}
}
