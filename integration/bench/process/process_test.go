package process

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestCPUTimeOfChildProcessesIsCounted(t *testing.T) {
	before, err := UsageOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exec sleep 60")
	if err := cmd.Start(); err != nil {
		t.Skipf("no shell: %v", err)
	}
	var child Usage
	for deadline := time.Now().Add(time.Minute); ; {
		pid, err := Child("sleep", "60")
		if err == nil {
			if pid != cmd.Process.Pid {
				t.Errorf("Child returned process ID %d, want %d", pid, cmd.Process.Pid)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if child, err = UsageOf(cmd.Process.Pid); err != nil || child.CPU == 0 || child.Resident == 0 ||
		child.Peak < child.Resident {
		t.Errorf("unexpected usage of the child: %+v: %v", child, err)
	}
	if _, err := Child("sleep", "61"); err == nil {
		t.Error("Child returned a process with another argument")
	}
	if machine, others := MachineCPU(), OthersCPU(); machine == 0 || machine-others < child.CPU/2 {
		t.Errorf("machine CPU %s, CPU of others %s", machine, others)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // an error is expected, because the test killed the process
	after, err := UsageOf(os.Getpid())
	if err != nil || after.Children-before.Children < child.CPU {
		t.Errorf("CPU of children after Wait is %s, before %s: %v", after.Children, before.Children, err)
	}
	both, err := UsageOf(os.Getpid(), os.Getpid())
	if err != nil || both.Children != 2*after.Children {
		t.Errorf("usage of the same process twice is %s: %v", both.Children, err)
	}
}
