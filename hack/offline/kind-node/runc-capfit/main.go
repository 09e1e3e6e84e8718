// Command runc-capfit is an OCI runtime that runs runc without the capabilities that this machine does not have. A
// privileged container requests all capabilities. Without this command, runc fails with "unable to apply caps:
// operation not permitted".
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// capabilities lists the names of the capabilities in the order of their bits.
//
// Source: linux/include/uapi/linux/capability.h.
var capabilities = strings.Fields(`CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT
SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP
MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`)

func main() {
	err := run(os.Args[1:])
	fmt.Fprintln(os.Stderr, "runc-capfit:", err)
	os.Exit(1)
}

// run replaces the process with runc. It returns only on an error.
func run(args []string) error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	held, err := boundingSet(status)
	if err != nil {
		return err
	}
	if file := document(args); file != "" {
		if err := fit(file, held); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return err
	}
	return syscall.Exec(runc, append([]string{"runc"}, args...), os.Environ())
}

// boundingSet returns the capabilities in the bounding set of a process.
//
// Source: proc_pid_status(5), CapBnd.
func boundingSet(status []byte) (map[string]bool, error) {
	for line := range strings.Lines(string(status)) {
		value, found := strings.CutPrefix(line, "CapBnd:")
		if !found {
			continue
		}
		mask, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil {
			return nil, fmt.Errorf("read CapBnd: %w", err)
		}
		held := map[string]bool{}
		for bit, name := range capabilities {
			held["CAP_"+name] = mask&(1<<bit) != 0
		}
		return held, nil
	}
	return nil, errors.New("/proc/self/status has no CapBnd")
}

// document returns the file with the capabilities for a command of runc, or "" if the command grants none.
func document(args []string) string {
	for i, arg := range args {
		switch arg {
		case "create", "run", "restore":
			return filepath.Join(option(args[i:], "--bundle", "-b"), "config.json")
		case "exec":
			return option(args[i:], "--process", "-p")
		}
	}
	return ""
}

func option(args []string, long, short string) string {
	for i, arg := range args {
		if value, found := strings.CutPrefix(arg, long+"="); found {
			return value
		}
		if (arg == long || arg == short) && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// fit removes unavailable capabilities from a file: a container's config.json, or the process of `runc exec`.
func fit(file string, held map[string]bool) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	data, err = fitted(data, held)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

// Source: opencontainers/runtime-spec, config.md, process.capabilities.
func fitted(data []byte, held map[string]bool) ([]byte, error) {
	var config map[string]any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // keeps integers above 2^53 exact
	if err := decoder.Decode(&config); err != nil {
		return nil, err
	}
	process, whole := config["process"].(map[string]any)
	if !whole {
		process = config
	}
	sets, _ := process["capabilities"].(map[string]any)
	for set, value := range sets {
		asked, _ := value.([]any)
		granted := []any{}
		for _, name := range asked {
			if text, _ := name.(string); held[text] {
				granted = append(granted, name)
			}
		}
		sets[set] = granted
	}
	return json.Marshal(config)
}
