package fleet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// AddRuntime starts a cluster, enrolls it as a runtime and starts its agent. It creates the runtime's Kyma in the
// control plane if the Kyma does not exist.
func (f *Fleet) AddRuntime(ctx context.Context, id, channel string, modules ...string) (*Runtime, error) {
	return f.add(ctx, &Runtime{ID: id, AgentFlags: f.options.AgentFlags, fleet: f}, NewKyma(id, channel, modules...))
}

// AddCarried adds an air-gapped runtime whose agent uses a separate registry location. Tests must copy bundles and
// reports between the locations.
func (f *Fleet) AddCarried(
	ctx context.Context, id, channel, location string, agentFlags []string, modules ...string,
) (*Runtime, error) {
	kyma := NewKyma(id, channel, modules...)
	kyma.Annotations = map[string]string{v1beta2.AnnotationCarried: v1beta2.True}
	return f.add(ctx, &Runtime{ID: id, fleet: f, location: location, AgentFlags: agentFlags}, kyma)
}

// AddSingle enrolls the control plane's own cluster as a runtime, as in single-cluster mode.
func (f *Fleet) AddSingle(ctx context.Context, id, channel string, modules ...string) (*Runtime, error) {
	kyma := NewKyma(id, channel, modules...)
	kyma.Labels[v1beta2.LabelControlPlane] = v1beta2.True
	return f.addTo(ctx, f.kcp, &Runtime{ID: id, AgentFlags: f.options.AgentFlags, fleet: f}, kyma)
}

func (f *Fleet) add(ctx context.Context, r *Runtime, kyma *v1beta2.Kyma) (*Runtime, error) {
	var err error
	if r.cluster, err = f.environment.Cluster(ctx, f, r.ID, false); err != nil {
		return nil, err
	}
	return f.addTo(ctx, r.cluster, r, kyma)
}

func (f *Fleet) addTo(ctx context.Context, own Cluster, r *Runtime, kyma *v1beta2.Kyma) (*Runtime, error) {
	f.runtimes = append(f.runtimes, r)
	if err := r.connect(own); err != nil {
		return nil, err
	}
	if err := r.enroll(ctx); err != nil {
		return nil, err
	}
	if err := f.createAccount(ctx, own, r.API, r.AgentKubeconfig(), agentAccount, f.options.AgentRights); err != nil {
		return nil, err
	}
	if err := f.CreateKyma(ctx, kyma); client.IgnoreAlreadyExists(err) != nil {
		return nil, fmt.Errorf("create Kyma %s: %w", r.ID, err)
	}
	return r, r.StartAgent()
}

// CreateKyma creates the Kyma of a runtime in the control plane, but no cluster.
func (f *Fleet) CreateKyma(ctx context.Context, kyma *v1beta2.Kyma) error {
	f.label(kyma)
	return f.Control.Create(ctx, kyma)
}

// NewKyma returns a Kyma for the control plane.
func NewKyma(id, channel string, modules ...string) *v1beta2.Kyma {
	kyma := &v1beta2.Kyma{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: sample.Namespace, Name: id, Labels: map[string]string{v1beta2.LabelRuntimeID: id},
		},
		Spec: v1beta2.KymaSpec{Channel: channel},
	}
	for _, m := range modules {
		kyma.Spec.Modules = append(kyma.Spec.Modules, v1beta2.Module{
			Name: m, Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
		})
	}
	return kyma
}

// Cluster returns the name of the runtime's cluster.
func (r *Runtime) Cluster() string {
	if r.cluster == nil {
		return ControlPlane
	}
	return r.ID
}

// enroll creates the agent's namespace and the ServiceAccount of module checks, and applies the output of
// `kcp-publisher enroll`.
func (r *Runtime) enroll(ctx context.Context) error {
	if err := r.API.Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1beta2.RuntimeNamespace}}); err != nil {
		return err
	}
	if err := r.createChecksAccount(ctx); err != nil {
		return err
	}
	return r.Enroll(ctx)
}

// Enroll applies the output of `kcp-publisher enroll`. After a second call, the agent can register a new key.
func (r *Runtime) Enroll(ctx context.Context) error {
	var flags []string
	if r.location == "" {
		flags = r.fleet.endpoint.Enroll
	}
	if n := r.fleet.options.Notifications; n != nil {
		flags = append(slices.Clone(flags), "--notifications-url", n.AgentsURL())
	}
	return r.EnrollAt(ctx, cmp.Or(r.location, r.fleet.Location()), flags...)
}

// EnrollAt is like Enroll, but with the given registry location and with additional flags.
func (r *Runtime) EnrollAt(ctx context.Context, location string, flags ...string) error {
	var problems bytes.Buffer
	args := append([]string{"enroll", r.ID, "--keys", r.fleet.Keys(), "--location", location}, flags...)
	cmd := exec.CommandContext(ctx, r.fleet.binaries.Publisher, args...)
	cmd.Stderr = &problems
	output, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("enroll %s: %w\n%s", r.ID, err, problems.String())
	}
	secret := &corev1.Secret{}
	if err := yaml.Unmarshal(output, secret); err != nil {
		return err
	}
	if err := r.API.Delete(ctx, secret.DeepCopy()); client.IgnoreNotFound(err) != nil {
		return err
	}
	return r.API.Create(ctx, secret)
}

// StartAgent runs `skr-agent run`.
func (r *Runtime) StartAgent() error {
	flags := append([]string{"--poll-interval=" + agentPoll, "--report-interval=" + agentReport}, r.AgentFlags...)
	var err error
	r.agent, err = r.fleet.environment.Agent(r, flags)
	return err
}

// Restart stops the runtime's cluster and starts it again.
func (r *Runtime) Restart() error {
	if err := r.Pause(); err != nil {
		return err
	}
	return r.Resume()
}

// Pause stops the runtime's cluster.
func (r *Runtime) Pause() error {
	if r.cluster == nil {
		return errors.New("the runtime uses the control plane's cluster: use PauseControlPlane")
	}
	return r.cluster.Pause()
}

// Resume starts the runtime's cluster again.
func (r *Runtime) Resume() error { return r.cluster.Resume() }

// Started returns the time of the cluster's last start.
func (r *Runtime) Started(ctx context.Context) (time.Time, error) {
	return cmp.Or(r.cluster, r.fleet.kcp).Started(ctx)
}

// Agent returns the running agent.
func (r *Runtime) Agent() Program { return r.agent }

// CrashAgent kills the agent and starts it again.
func (r *Runtime) CrashAgent() error {
	if err := r.agent.Kill(); err != nil {
		return fmt.Errorf("kill the agent of %s: %w", r.ID, err)
	}
	return r.StartAgent()
}

// Kyma returns the Kyma in the runtime's cluster. See Record for the control plane's Kyma.
func (r *Runtime) Kyma(ctx context.Context) (*v1beta2.Kyma, error) {
	kyma := &v1beta2.Kyma{}
	err := r.API.Get(ctx, client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: v1beta2.RuntimeKymaName}, kyma)
	return kyma, err
}

// Record returns the runtime's Kyma in the control plane.
func (r *Runtime) Record(ctx context.Context) (*v1beta2.Kyma, error) {
	kyma := &v1beta2.Kyma{}
	err := r.fleet.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: r.ID}, kyma)
	return kyma, err
}

// EditKyma changes the spec of the Kyma in the runtime's cluster, as an admin of the runtime does.
func (r *Runtime) EditKyma(ctx context.Context, edit func(*v1beta2.KymaSpec)) error {
	kyma, err := r.Kyma(ctx)
	if err != nil {
		return err
	}
	before := kyma.DeepCopy()
	edit(&kyma.Spec)
	return r.API.Patch(ctx, kyma, client.MergeFrom(before))
}

// WantAgent sets the agent's image in the runtime's next bundle.
func (r *Runtime) WantAgent(ctx context.Context, image string) error {
	record, err := r.Record(ctx)
	if err != nil {
		return err
	}
	before := record.DeepCopy()
	metav1.SetMetaDataAnnotation(&record.ObjectMeta, v1beta2.AnnotationAgentImage, image)
	return r.fleet.Control.Patch(ctx, record, client.MergeFrom(before))
}

// Desired returns the newest bundle in the runtime's repository.
func (r *Runtime) Desired(ctx context.Context) (bundle.Fetched, error) {
	repository, err := r.fleet.Place.Repository(ctx, bundle.DesiredRepository(r.ID))
	if err != nil {
		return bundle.Fetched{}, err
	}
	return store.Fetch(ctx, repository, bundle.TagDesired)
}

// Put pushes a manifest as the runtime's bundle, as an attacker with write access to the registry could.
func (r *Runtime) Put(ctx context.Context, manifest bundle.Blob) error {
	repository, err := r.fleet.Place.Repository(ctx, bundle.DesiredRepository(r.ID))
	if err != nil {
		return err
	}
	return store.PushManifest(ctx, repository, manifest, bundle.TagDesired)
}

// UntilState waits until the runtime's Kyma in the control plane shows the module with the given version and state.
func (r *Runtime) UntilState(ctx context.Context, module, version string, state v1beta2.State) error {
	err := Until(ctx, r.fleet.options.TimeLimit,
		fmt.Sprintf("%s shows %s %s as %s in the control plane", r.ID, module, version, state), func() (bool, string) {
			kyma, err := r.Record(ctx)
			if err != nil {
				return false, err.Error()
			}
			for _, m := range kyma.Status.Modules {
				if m.Name == module && m.Version == version && m.State == state {
					return true, ""
				}
			}
			return false, describe(kyma.Status)
		})
	if err != nil {
		return fmt.Errorf("%w%s", err, r.installed(ctx))
	}
	return nil
}

// UntilGone waits until the module is removed from the runtime and from the control plane's status.
func (r *Runtime) UntilGone(ctx context.Context, module string) error {
	err := Until(ctx, r.fleet.options.TimeLimit, fmt.Sprintf("%s is gone from %s", module, r.ID), func() (bool, string) {
		err := r.API.Get(ctx, client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: module}, &v1beta2.Manifest{})
		if client.IgnoreNotFound(err) != nil || err == nil {
			return false, fmt.Sprintf("Manifest: %v", err)
		}
		kyma, err := r.Record(ctx)
		if err != nil {
			return false, err.Error()
		}
		for _, m := range kyma.Status.Modules {
			if m.Name == module {
				return false, describe(m)
			}
		}
		return true, ""
	})
	if err != nil {
		return fmt.Errorf("%w%s", err, r.installed(ctx))
	}
	return nil
}

// UntilAccepted waits until the Accepted condition of the Kyma in the runtime has this status and reason.
func (r *Runtime) UntilAccepted(ctx context.Context, status metav1.ConditionStatus, reason string) error {
	return Until(ctx, LongTimeout, fmt.Sprintf("%s has Accepted=%s with reason %s", r.ID, status, reason),
		func() (bool, string) {
			kyma, err := r.Kyma(ctx)
			if err != nil {
				return false, err.Error()
			}
			for _, c := range kyma.Status.Conditions {
				if c.Type == v1beta2.ConditionAccepted && c.Status == status && c.Reason == reason {
					return true, ""
				}
			}
			return false, describe(kyma.Status.Conditions)
		})
}

func (r *Runtime) installed(ctx context.Context) string {
	var manifests v1beta2.ManifestList
	if err := r.API.List(ctx, &manifests); err != nil {
		return err.Error()
	}
	text := "; in the runtime:"
	for _, m := range manifests.Items {
		text += fmt.Sprintf(" %s %s %s", m.Name, m.Spec.Version, describe(m.Status.Conditions))
	}
	return text
}

func (r *Runtime) close() error {
	var err error
	if r.agent != nil {
		err = r.agent.Stop()
	}
	err = errors.Join(err, os.RemoveAll(r.Kubeconfig()), os.RemoveAll(r.AgentKubeconfig()))
	if r.cluster != nil {
		err = errors.Join(err, r.cluster.Stop())
	}
	return err
}

// Link returns the runtime's link to the registry, or nil if the fleet's environment has no links.
func (r *Runtime) Link() Link {
	if environment, linked := r.fleet.environment.(Linked); linked {
		return environment.Link(r.ID)
	}
	return nil
}
