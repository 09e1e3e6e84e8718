package manager

import (
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"runtime"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// podName and podUID are the environment variables with the name and the UID of the program's Pod.
const podName, podUID = "POD_NAME", "POD_UID"

// identity names the holder of a lease. A container that starts again in its Pod follows a process that has ended, and
// goes on with that one's lease without waiting for its end. Whoever has a name is taken for the holder at once, so
// that no two processes that run may have the same one: another Pod may have the name of one whose node is cut off,
// which its UID tells, and a process that somebody starts in the container has the environment of the first one, which
// exclusive tells. In doubt the name is nobody else's, and the lease is waited for.
func identity() (string, error) {
	host, err := os.Hostname()
	if pod := os.Getenv(podName); pod != "" {
		host, err = pod, nil
		if uid := os.Getenv(podUID); uid != "" && exclusive(pod+"/"+uid) {
			return pod + "_" + uid, nil
		}
	}
	return host + "_" + string(uuid.NewUUID()), err
}

// exclusive reports whether no other process of the Pod has the name, and takes it until the process ends.
//
// A socket in Linux' abstract namespace is known to all containers of a Pod, needs no file system that can be written
// to, and is gone when its process is, however that ended.
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
	go func() { // for as long as the process lives
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_ = connection.Close() // nobody has anything to say here
		}
	}()
	return true
}
