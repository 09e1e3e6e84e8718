package pristine

import (
	"errors"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// lowCPUEnvironment contains environment variables that reduce the CPU time of an API server and its etcd by a fifth.
var lowCPUEnvironment = map[string]string{"GOGC": "400", "GOMAXPROCS": "1"}

// Start starts an API server for a package's tests. etcd does not sync its writes to disk. Start temporarily sets
// environment variables of this process, so other goroutines must not start programs at the same time.
func Start(env *envtest.Environment) (config *rest.Config, err error) {
	if env.ControlPlaneStartTimeout == 0 {
		env.ControlPlaneStartTimeout = 3 * time.Minute
	}
	if env.ControlPlane.Etcd == nil {
		env.ControlPlane.Etcd = &envtest.Etcd{}
	}
	env.ControlPlane.Etcd.Configure().Set("unsafe-no-fsync", "true")
	var set []string
	defer func() {
		for _, name := range set {
			err = errors.Join(err, os.Unsetenv(name))
		}
	}()
	for name, value := range lowCPUEnvironment {
		if os.Getenv(name) != "" {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
		set = append(set, name)
	}
	return env.Start()
}
