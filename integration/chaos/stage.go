package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/cluster"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/loopback"
	"github.com/kyma-pull/kyma-pull/integration/registry"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// Modules of the fleet. All runtimes have scaler, which rolls out in waves. Admins add and remove mailer.
const (
	scaler, mailer = "scaler", "mailer"
	mailerVersion  = "1.0.0"
	channel        = "regular"
	lease          = "kcp-publisher.kyma-pull.dev"
	// stageLabel is the label of Kymas that selects the canaries.
	stageLabel = "stage"
	// concurrentOthers limits the non-canary runtimes that get a version at the same time.
	concurrentOthers = 3
)

// program is a process that the run restarts when it exits, as the kubelet restarts a container.
type program struct {
	name, role, metrics string
	start               func() (fleet.Program, error)

	mu   sync.Mutex // guards the fields below
	runs fleet.Program
	down bool // a fault killed the program and will start it later
}

// refusedCommit is the newest commit of a RefuseCommit step. channel and before are the values that the stage's fields
// with the same names had before the commit.
type refusedCommit struct {
	version, channel, before string
	begin                    time.Time
}

type stage struct {
	plan    []Step
	shape   Shape
	dir     string
	story   *Story
	checker *Checker
	locks   objectLocks

	fleet    *fleet.Fleet
	registry *registry.Registry
	repo     *repository
	space    int64   // size limit of the registry in bytes
	storage  *volume // nil if no volume can be mounted; steps then fill no disks
	cache    *volume
	troubles registryFaults
	// notifications are the addresses of the first publisher, or nil without notifications. With shards, they are the
	// addresses of the balancers, and receivers contains the addresses of the publishers.
	notifications *fleet.Notifications
	receivers     []*fleet.Notifications
	tap           *tap
	reals         map[string]*fleet.Runtime
	connections   map[string]*fleet.Proxy // by the names in Shape.connectionNames
	proxies       []*fleet.Proxy          // proxies outside of the fleet
	programs      map[string]*program
	clusters      cluster.Pool

	began time.Time
	once  sync.Mutex // serializes key changes and new simulated runtimes

	releasing sync.Mutex // serializes commits to the channel, and guards the fields below
	channel   string     // current version of the channel
	before    string     // previous working version of the channel
	refused   refusedCommit
	// restoredControl is the time of the control plane's last restore.
	restoredControl time.Time

	mu   sync.Mutex // guards the fields below
	sims map[string]*fleet.Simulated
	gone map[string]bool // runtimes with a deleted Kyma
	// mailers contains the runtimes whose admins request module mailer. If isMandatory is true, all runtimes get the
	// module.
	mailers     map[string]bool
	enrolling   map[string]bool // runtimes whose new keys the control plane has not recorded yet
	isMandatory bool
	injected    map[Kind]int
	// copies are the running copies of runtimes. snapshots counts the snapshots of each runtime.
	copies    map[string]*fleet.Runtime
	snapshots map[string]int
	// announcement contains the publishers' flags that announce the next registry CA.
	announcement []string
	trends       []Trend
}

func (s *stage) since() time.Duration { return time.Since(s.began) }

// start starts the fleet. It does not wait until the fleet has converged.
func (s *stage) start(ctx context.Context, progress io.Writer) error {
	var err error
	if err := s.addRegistry(ctx); err != nil {
		return err
	}
	if s.repo, err = newRepository(ctx, filepath.Join(s.dir, "git")); err != nil {
		return err
	}
	rights := []string{"publisher.yaml", "git.yaml"}
	flags := s.repo.flags()
	if s.shape.Shards {
		s.checker.Divided()
		rights, flags = append(rights, "shards.yaml"), append(flags, "--shards=6") // as in shards.yaml
	}
	flags = append(flags,
		"--set", "registry-check-interval=3s", "--set", "keys-poll-interval=1s", "--set", "component-poll-interval=5s",
		"--set", "certificate-validity=90s",
		"--set", "leader-election-lease-duration=8s", "--set", "leader-election-renew-deadline=6s",
		"--set", "leader-election-retry-period=1s", "--metrics-auth=false",
	)
	host := s.registry.Host()
	if s.shape.Network {
		if host, err = s.startProxy(publishersToRegistry, host); err != nil {
			return err
		}
	}
	validity := time.Duration(0)
	if s.shape.Expiry {
		validity = bundleValidity
	}
	options := fleet.Options{
		Validity: validity,
		Dir:      s.dir, Progress: progress, RegistryHost: host, SecondRegistryHost: s.registry.Host(), Links: true,
		LeaderElect: true, Clusters: &s.clusters,
		PublisherFlags: flags, PublisherRights: rights, Notifications: s.notifications,
		AgentFlags: []string{
			"--set", "leader-election-lease-duration=8s", "--set", "leader-election-renew-deadline=6s",
			"--set", "leader-election-retry-period=1s",
		},
	}
	if err := s.trustRegistry(&options); err != nil {
		return err
	}
	s.fleet = fleet.New(options)
	if err := s.fleet.Up(ctx); err != nil {
		return err
	}
	if err := s.fleet.Publisher().Stop(); err != nil { // start named replicas with metrics instead of this publisher
		return err
	}
	s.tap.keys = s.fleet.Keys()
	if err := s.pushCatalog(ctx); err != nil {
		return err
	}
	for i := range s.shape.Replicas {
		if err := s.addPublisher(i); err != nil {
			return err
		}
	}
	if s.shape.Shards && s.notifications != nil {
		if err := s.balanceNotifications(); err != nil {
			return err
		}
	}
	for i := range s.shape.Simulated {
		if err := s.simulate(ctx, SimulatedID(i)); err != nil {
			return err
		}
	}
	for i := range s.shape.Real {
		if err := s.addReal(ctx, RealID(i)); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) addRegistry(ctx context.Context) error {
	dir := filepath.Join(s.dir, "registry")
	var err error
	if s.storage, err = newVolume(dir, s.space); err == nil {
		dir = s.storage.dir
	} else if !errors.Is(err, errNoVolume) {
		return err
	}
	if s.cache, err = newVolume(filepath.Join(s.dir, "cache"), 32<<20); err != nil && !errors.Is(err, errNoVolume) {
		return err
	}
	options := registry.Options{Dir: dir}
	if s.shape.Notifications {
		if s.notifications, err = fleet.NewNotifications(); err != nil {
			return err
		}
		options.NotifyURL, options.NotifyToken = s.notifications.ReceiverURL(), s.notifications.Token
	}
	s.tlsOptions(&options)
	if s.registry, err = registry.Start(ctx, options); err != nil {
		return err
	}
	s.registry.Intercept(s.beforeRequest)
	s.registry.Observe(s.afterRequest)
	return nil
}

// pushCatalog pushes all module versions in the plan to the registry. It commits a catalog with these versions, and the
// rollout policy.
func (s *stage) pushCatalog(ctx context.Context) error {
	files := map[string]any{
		"policy":             policy(),
		"releases/" + mailer: mailerRelease(false),
	}
	versions := []sample.Version{sample.Scaler(FirstVersion), sample.Mailer(mailerVersion), sample.Scaler(lastVersion)}
	for _, step := range s.plan {
		switch step.Kind {
		case Promote, MistypeWave:
			v := sample.Scaler(step.Target)
			v.RequiresDowntime = step.Serial%3 == 0
			versions = append(versions, v)
		case PromoteBroken:
			versions = append(versions, sample.BrokenScaler(step.Target))
		case RefuseCommit:
			versions = append(versions, sample.Scaler(step.Target))
			for _, v := range refusedVersions(step.Serial) {
				if err := v.Push(ctx, s.fleet.Modules); err != nil {
					return err
				}
			}
		}
	}
	for _, v := range versions {
		if err := v.Push(ctx, s.fleet.Modules); err != nil {
			return err
		}
		files["modules/"+v.Module+"-"+v.Version] = v.Template()
	}
	s.checker.Promoted(mailer, mailerVersion, false)
	s.checker.Promoted(scaler, FirstVersion, false)
	files["releases/"+scaler] = release(FirstVersion)
	s.channel, s.before = FirstVersion, FirstVersion
	return s.repo.push(ctx, "offer everything", files)
}

// refusedVersions returns two versions of module mailer. Only the commit of a RefuseCommit step contains their
// ModuleTemplates.
func refusedVersions(serial int) [2]sample.Version {
	return [2]sample.Version{sample.Mailer(fmt.Sprintf("0.%d.1", serial)), sample.Mailer(fmt.Sprintf("0.%d.2", serial))}
}

// lastVersion is the version that is promoted after all faults have ended. It is newer than all other versions.
const lastVersion = "2.0.0"

func release(version string) *v1beta2.ModuleReleaseMeta {
	return sample.Release(scaler, sample.Scaler("").Component(), sample.Channel(channel, version))
}

// policy returns the policy that rolls out scaler in two waves. The first wave contains the canaries and does not allow
// failures. The second wave contains all other runtimes.
func policy() *v1alpha1.RolloutPolicy {
	return &v1alpha1.RolloutPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "RolloutPolicy"},
		ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: "careful"},
		Spec: v1alpha1.RolloutPolicySpec{Modules: []string{scaler}, Course: v1alpha1.Course{
			// No run takes this long, so runtimes never count as offline. Otherwise, a wave's limits would not apply to
			// all runtimes, as the checker expects.
			OfflineAfter: metav1.Duration{Duration: 1000 * time.Hour},
			Waves: []v1alpha1.Wave{
				{
					Name:        "canaries",
					Selector:    &metav1.LabelSelector{MatchLabels: map[string]string{stageLabel: "canary"}},
					MaxFailures: new(intstr.FromInt32(0)), MaxDeferred: new(intstr.FromInt32(0)),
				},
				{
					Name: "others", Percent: new(int32(100)), MaxConcurrent: new(intstr.FromInt32(concurrentOthers)),
					MaxDeferred: new(intstr.FromInt32(0)),
				},
			},
		}},
	}
}

func (s *stage) addPublisher(i int) error {
	metrics, err := loopback.Address()
	if err != nil {
		return err
	}
	flags := []string{"--metrics-bind-address", metrics}
	if s.cache != nil && i == 0 {
		flags = append(flags, "--component-cache", s.cache.dir)
	}
	if s.notifications != nil && (i > 0 || s.shape.Shards) {
		// The registry and the agents know only the addresses of the first publisher or of the balancers.
		own, err := fleet.NewNotifications()
		if err != nil {
			return err
		}
		flags = append(flags, "--receiver-bind-address="+own.Receiver, "--notifications-bind-address="+own.Agents)
		s.receivers = append(s.receivers, own)
	}
	if s.shape.Network {
		flag, err := s.throughProxy(publisherToAPI(i), s.fleet.PublisherKubeconfig())
		if err != nil {
			return err
		}
		flags = append(flags, flag)
	}
	return s.employ(fmt.Sprint(i), &program{
		name: fmt.Sprint("publisher ", i), role: "publisher", metrics: metrics,
		start: func() (fleet.Program, error) {
			s.mu.Lock()
			all := slices.Concat(flags, s.announcement)
			s.mu.Unlock()
			return s.fleet.StartReplica(all...)
		},
	})
}

func (s *stage) employ(id string, p *program) error {
	s.programs[id] = p
	var err error
	p.runs, err = p.start()
	return err
}

func newKyma(id string) *v1beta2.Kyma {
	kyma := fleet.NewKyma(id, channel, scaler)
	kyma.Labels[stageLabel] = "production"
	if Canary(id) {
		kyma.Labels[stageLabel] = "canary"
	}
	return kyma
}

// simulate adds a simulated runtime. Callers can repeat a failed call.
func (s *stage) simulate(ctx context.Context, id string) error {
	s.once.Lock()
	defer s.once.Unlock()
	s.checker.Asked(s.since(), id, scaler)
	s.announceMailer(id)
	kyma := newKyma(id)
	if err := s.fleet.Control.Create(ctx, kyma.DeepCopy()); err != nil && !alreadyThere(err) {
		return err
	}
	sim, err := s.fleet.Simulate(ctx, kyma)
	if err != nil {
		return err
	}
	if Canary(id) {
		for _, step := range s.plan {
			if step.Kind == PromoteBroken {
				sim.BreakWith(step.Target)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sims[id] = sim
	return nil
}

func (s *stage) addReal(ctx context.Context, id string) error {
	s.checker.Asked(s.since(), id, scaler)
	if err := s.fleet.Control.Create(ctx, newKyma(id)); err != nil {
		return err
	}
	r, err := s.fleet.AddRuntime(ctx, id, channel, scaler)
	if err != nil {
		return err
	}
	metrics, err := loopback.Address()
	if err != nil {
		return err
	}
	s.reals[id] = r
	if err := r.Agent().Stop(); err != nil {
		return err
	}
	r.AgentFlags = append(r.AgentFlags, "--metrics-bind-address", metrics)
	if s.shape.isMixed(id) {
		programs, err := fleet.BuildAt(ctx, s.shape.Mixed)
		if err != nil {
			return err
		}
		r.AgentProgram = programs.Agent
	}
	if link, ok := r.Link().(*fleet.Proxy); ok && s.shape.Network {
		flag, err := s.throughProxy(agentToAPI(id), r.AgentKubeconfig())
		if err != nil {
			return err
		}
		s.connections[agentToRegistry(id)], r.AgentFlags = link, append(r.AgentFlags, flag)
	}
	return s.employ(id,
		&program{name: "agent of " + id, role: "agent", metrics: metrics, start: func() (fleet.Program, error) {
			err := r.StartAgent()
			return r.Agent(), err
		}})
}

func (s *stage) close() error {
	problems := []error{s.discardCopies()}
	for _, p := range s.programs {
		p.mu.Lock()
		p.down = true
		if p.runs != nil {
			problems = append(problems, p.runs.Stop())
		}
		p.mu.Unlock()
	}
	if s.fleet != nil {
		problems = append(problems, s.fleet.Close())
	}
	problems = append(problems, s.clusters.Close())
	for _, p := range s.proxies {
		problems = append(problems, p.Close())
	}
	if s.registry != nil {
		problems = append(problems, s.registry.Close())
	}
	for _, v := range []*volume{s.storage, s.cache} {
		if v != nil {
			problems = append(problems, v.close())
		}
	}
	if s.repo != nil {
		s.repo.server.Close()
	}
	return errors.Join(append(problems, os.RemoveAll(filepath.Join(s.dir, "git")))...)
}

func alreadyThere(err error) bool { return apierrors.IsAlreadyExists(err) }

// objectLocks serializes the steps that change the same object, because a step can take longer than planned on a busy
// machine.
type objectLocks struct {
	mu    sync.Mutex // guards taken
	taken map[string]chan struct{}
}
