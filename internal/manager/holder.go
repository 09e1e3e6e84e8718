package manager

import (
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// podName and podUID are environment variables with the program's Pod name and UID.
const podName, podUID = "POD_NAME", "POD_UID"

// identity returns this process's holder identity for a lease. A process that restarts in the same Pod or on the same
// host has the same identity, so it does not wait for its old lease to expire.
//
// Two running processes must never have the same identity, because client-go would treat both as the holder. The Pod's
// UID distinguishes Pods with the same name. Outside a Pod, the boot ID and the network namespace replace the UID. The
// function reserveName ensures that only one process in a network namespace uses the identity. If any of these is
// unavailable, the identity is random.
func identity(lease string) (string, error) {
	pod, uid := os.Getenv(podName), os.Getenv(podUID)
	if pod != "" && uid != "" && reserveName(pod+"/"+uid) {
		return pod + "_" + uid, nil
	}
	host, err := os.Hostname()
	if pod != "" {
		host, err = pod, nil
	}
	if place := networkNamespace(); place != "" && reserveName(place+"/"+lease) {
		return fmt.Sprintf("%s_%x", host, sha256.Sum256([]byte(place+"/"+lease)))[:len(host)+33], err
	}
	return host + "_" + string(uuid.NewUUID()), err
}

// networkNamespace returns an identifier of the process's network namespace: the kernel's boot ID and the namespace's
// number. It returns "" if either is unavailable.
//
// Source: namespaces(7), /proc/pid/ns; random(4), boot_id.
func networkNamespace() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + "/" + namespace
}

// reserveName reserves a name in the network namespace until the process ends. It returns false if another process has
// reserved the name.
//
// It uses an abstract socket, which all containers in a Pod share and which the kernel removes when the process ends.
//
// Source: unix(7), abstract sockets.
func reserveName(name string) bool {
	if runtime.GOOS != "linux" {
		return false
	}
	listener, err := net.Listen("unix", fmt.Sprintf("@kyma-pull-%x", sha256.Sum256([]byte(name))))
	if err != nil {
		return false
	}
	go func() { // runs until the process ends
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_ = connection.Close() // clients do not use the socket
		}
	}()
	return true
}
