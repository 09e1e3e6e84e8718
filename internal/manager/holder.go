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

// podName and podUID are the environment variables with the name and the UID of the program's Pod.
const podName, podUID = "POD_NAME", "POD_UID"

// identity returns the identity under which the process holds a lease. A process that was killed and restarted in the
// same place gets the same identity, and continues with the lease without waiting for its expiry.
//
// Two running processes must never share an identity, because client-go treats the second one as the holder. The Pod's
// UID distinguishes Pods of the same name, for example after a node was cut off. Outside of a Pod, the running kernel
// and the network namespace do the same. Within that place, exclusive distinguishes processes. If any of this is
// unavailable, the identity is random, and the process waits for the lease to expire.
func identity(lease string) (string, error) {
	pod, uid := os.Getenv(podName), os.Getenv(podUID)
	if pod != "" && uid != "" && exclusive(pod+"/"+uid) {
		return pod + "_" + uid, nil
	}
	host, err := os.Hostname()
	if pod != "" {
		host, err = pod, nil
	}
	if place := networkNamespace(); place != "" && exclusive(place+"/"+lease) {
		return fmt.Sprintf("%s_%x", host, sha256.Sum256([]byte(place+"/"+lease)))[:len(host)+33], err
	}
	return host + "_" + string(uuid.NewUUID()), err
}

// networkNamespace identifies the network namespace of the process: the number of the namespace on its running kernel.
// It returns "" if the system does not provide both. A number is reused only after all processes of the namespace
// ended.
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

// exclusive reports whether the process is the only one with the name in its network namespace, and reserves the name
// until the process ends.
//
// A socket in the abstract namespace of Linux is visible to all containers of a Pod, needs no writable file system, and
// disappears with its process, however that ends.
//
// Source: unix(7), abstract sockets.
func exclusive(name string) bool {
	if runtime.GOOS != "linux" {
		return false
	}
	listener, err := net.Listen("unix", fmt.Sprintf("@kyma-pull-%x", sha256.Sum256([]byte(name))))
	if err != nil {
		return false
	}
	go func() { // it runs as long as the process
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_ = connection.Close() // the socket only reserves the name
		}
	}()
	return true
}
