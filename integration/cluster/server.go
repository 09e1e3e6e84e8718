package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kyma-pull/kyma-pull/hack/assets"
	"github.com/kyma-pull/kyma-pull/hack/lender"
	"github.com/kyma-pull/kyma-pull/hack/pristine"
	"github.com/kyma-pull/kyma-pull/integration/loopback"
)

// server runs the programs of a cluster as children of this process.
type server struct {
	options    Options
	programs   assets.Assets
	dir        string
	kubeconfig string
	env        *envtest.Environment
	log        *os.File // log file of the API server
	kwok       *kwok    // nil if no workloads must become ready
	reaper     *reaper
	paused     bool
	frozen     bool  // the cluster is idle in a pool and its programs are suspended
	audited    int64 // size of the audit log at the start of the current loan
	// stopTimeout is the time after which an API server that does not end is killed.
	stopTimeout time.Duration

	origin *pristine.Snapshot // initial state that a pool restores; nil if the cluster has no pool
}

// start starts the programs and waits until they are ready.
func start(ctx context.Context, options Options) (*server, error) {
	if err := lender.ReportStart(); err != nil {
		return nil, err
	}
	s := &server{options: options, stopTimeout: 20 * time.Second}
	found, err := assets.Ensure(ctx, s.progress())
	if err != nil {
		return nil, fmt.Errorf("find or build kube-apiserver and etcd: %w", err)
	}
	seed, err := seedFor(found, options.CRDs)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "kyma-pull-cluster-")
	if err != nil {
		return nil, err
	}
	s.dir, s.kubeconfig = dir, filepath.Join(dir, "kubeconfig")
	if s.reaper, err = startReaper(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	for _, program := range []*string{&found.KubeAPIServer, &found.Etcd} {
		if *program, err = s.reaper.wrapProgram(*program, options.Measured); err != nil {
			return nil, errors.Join(err, s.reaper.dismiss(), os.RemoveAll(dir))
		}
	}
	s.programs = found
	if s.env, s.log, err = environment(found, dir, options); err != nil {
		return nil, errors.Join(err, s.reaper.dismiss(), os.RemoveAll(dir))
	}
	seeded, err := seed.plant(s.env.ControlPlane.Etcd.DataDir)
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	config, err := s.env.Start()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start kube-apiserver and etcd: %w\n%s", err, tail(s.log.Name())), s.stop())
	}
	config.QPS, config.Burst = -1, 0
	kubeconfig, err := s.addUser(lender.User{Name: "admin", Groups: []string{"system:masters"}})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("add an admin: %w", err), s.stop())
	}
	if err := os.WriteFile(s.kubeconfig, kubeconfig, 0o600); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	if err := s.prepare(ctx, config, seed, seeded); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	if err := s.prepareForBorrower(options.Workloads); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// prepare waits until the API server serves the CRDs. If etcd started without a seed, prepare creates the CRDs and
// stores a copy of the data as the seed for later starts.
func (s *server) prepare(ctx context.Context, config *rest.Config, seed seed, seeded bool) error {
	if !seeded {
		if err := installCRDs(config, s.options.CRDs); err != nil || seed == "" {
			return err
		}
		if err := s.whileStopped(seed.keep); err != nil {
			return fmt.Errorf("copy the data of etcd for later starts: %w", err)
		}
	}
	if err := waitForCRDs(config, s.options.CRDs); err != nil {
		return err
	}
	return pristine.ChangeIdentity(ctx, config, s.env.ControlPlane.Etcd.URL)
}

// prepareForBorrower prepares the cluster for its next borrower. If workloads is true, it starts kwok.
func (s *server) prepareForBorrower(workloads bool) error {
	if workloads && s.kwok == nil {
		var err error
		if s.kwok, err = startKwok(s.programs.Kwok, s.reaper, s.kubeconfig, s.options.Measured); err != nil {
			return fmt.Errorf("start kwok: %w", err)
		}
	}
	if !workloads && s.kwok != nil {
		if err := s.kwok.stop(); err != nil {
			return fmt.Errorf("stop kwok: %w", err)
		}
		s.kwok = nil
	}
	log, err := os.Stat(filepath.Join(s.dir, auditLog))
	if err == nil {
		s.audited = log.Size()
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (s *server) place() lender.Place {
	return lender.Place{
		Dir:        s.dir,
		Kubeconfig: s.kubeconfig,
		Etcd:       s.env.ControlPlane.Etcd.URL.String(),
		Audited:    s.audited,
	}
}

func (s *server) progress() io.Writer {
	if s.options.Progress == nil {
		return io.Discard
	}
	return s.options.Progress
}

func environment(found assets.Assets, dir string, options Options) (*envtest.Environment, *os.File, error) {
	env := &envtest.Environment{
		// Ignore envtest's environment variable for an existing cluster. Scenarios must never change a developer's own
		// cluster.
		UseExistingCluster:       new(false),
		ControlPlaneStartTimeout: 3 * time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}
	// By default, envtest uses ports of 127.0.0.1, which another program can take while a server is paused.
	var addresses [2]string
	for i := range addresses {
		var err error
		if addresses[i], err = loopback.Address(); err != nil {
			return nil, nil, err
		}
	}
	log, err := os.Create(filepath.Join(dir, "kube-apiserver.log"))
	if err != nil {
		return nil, nil, err
	}
	api := env.ControlPlane.GetAPIServer()
	api.Path, api.Out, api.Err = found.KubeAPIServer, log, log
	if api.Address, api.Port, err = net.SplitHostPort(addresses[0]); err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	// By default, envtest creates a new CA at each start, so clients would not trust a resumed API server.
	api.CertDir = filepath.Join(dir, "certificates")
	etcd := &envtest.Etcd{
		Path: found.Etcd, DataDir: filepath.Join(dir, "etcd"),
		URL: &url.URL{Scheme: "http", Host: addresses[1]},
	}
	for _, folder := range []string{api.CertDir, etcd.DataDir} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			return nil, nil, errors.Join(err, log.Close())
		}
	}
	// The admission plugin would reject Pods without ServiceAccounts, which only a controller manager creates.
	api.Configure().Set("disable-admission-plugins", "ServiceAccount").
		// By default, the API server waits up to a minute for clients to close their watches.
		Set("shutdown-watch-termination-grace-period", "2s").
		Set("max-requests-inflight", "2000").Set("max-mutating-requests-inflight", "2000").
		// Envtest's range of 256 addresses is too small for several hundred applications.
		Set("service-cluster-ip-range", "10.0.0.0/16")
	if options.Endpoints {
		api.Configure().Set("enable-aggregator-routing", "true")
	}
	if len(options.Audit) > 0 {
		if err := audit(api, dir, options.Audit); err != nil {
			return nil, nil, errors.Join(err, log.Close())
		}
	}
	if !options.Durable {
		etcd.Configure().Set("unsafe-no-fsync", "true")
	}
	env.ControlPlane.Etcd = etcd
	return env, log, nil
}

// tail returns the end of a log, which contains the reason for a failed start.
func tail(path string) []byte {
	content, err := os.ReadFile(path)
	if err != nil {
		return []byte(err.Error())
	}
	return content[max(0, len(content)-4096):]
}

func (s *server) addUser(user lender.User) ([]byte, error) {
	added, err := s.env.AddUser(envtest.User{Name: user.Name, Groups: user.Groups}, nil)
	if err != nil {
		return nil, err
	}
	return added.KubeConfig()
}

func (s *server) pause() error {
	s.paused = true
	if err := s.stopAPIServer(); err != nil {
		return fmt.Errorf("stop kube-apiserver: %w", err)
	}
	return s.reaper.forget("kube-apiserver")
}

// stopAPIServer stops the API server, and kills it after stopTimeout. Hanging connections can delay the API server's
// end by more than a minute. Envtest, too, would kill the API server after a timeout, but would not start it again
// later.
func (s *server) stopAPIServer() error {
	if pid, err := s.reaper.process("kube-apiserver"); err == nil {
		timer := time.AfterFunc(s.stopTimeout, func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
		defer timer.Stop()
	}
	return s.env.ControlPlane.APIServer.Stop()
}

func (s *server) resume() error {
	if err := s.env.ControlPlane.APIServer.Start(); err != nil {
		return fmt.Errorf("start kube-apiserver: %w", err)
	}
	s.paused = false
	return nil
}

// stop stops the programs and removes their data.
func (s *server) stop() error {
	problems := []error{s.thaw()} // suspended programs ignore SIGTERM
	if s.kwok != nil {
		problems = append(problems, s.kwok.stop())
	}
	problems = append(problems, s.stopAPIServer(), s.env.Stop(), s.log.Close(), s.reaper.dismiss(), os.RemoveAll(s.dir))
	return errors.Join(problems...)
}
