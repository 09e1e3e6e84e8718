package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// demoFleet is the fleet of the demo, which upgrades module "scaler" in runtimes berlin and tokyo.
type demoFleet struct {
	dir           string
	fleet         *fleet.Fleet
	berlin, tokyo *fleet.Runtime
}

type step struct {
	title   string
	happens func(context.Context) error
}

func (s *demoFleet) steps() []step {
	return []step{
		{"start the control plane, registry and publisher", s.start},
		{"enroll the runtimes berlin and tokyo, and start their agents", s.enroll},
		{"install scaler 1.7.0 of channel regular in both runtimes", s.installed},
		{"promote 1.8.0 to channel regular: both upgrade and prune obsolete objects", s.promoted},
		{"change a setting in berlin: the agent reverts the change", s.drift},
		{"forge a bundle in the registry: tokyo refuses it and keeps running", s.tampered},
		{"add module mailer to tokyo's own Kyma: tokyo gets and installs the module", s.adminAdds},
	}
}

func (s *demoFleet) start(ctx context.Context) error {
	var err error
	s.fleet, err = fleet.Start(ctx, fleet.Options{Dir: s.dir, Progress: os.Stderr, LeaderElect: true})
	if err != nil {
		return err
	}
	// docs/tutorials/first-rollout.md and catch-a-slow-release.md use version 1.9.0.
	if err := s.fleet.Offer(ctx, sample.Scaler("1.7.0"), sample.Scaler("1.8.0"), sample.Scaler("1.9.0"),
		sample.Mailer("1.0.0")); err != nil {
		return err
	}
	return errors.Join(s.fleet.Release(ctx, "scaler", sample.Scaler("").Component(), sample.Channel("regular", "1.7.0"),
		sample.Channel("fast", "1.8.0")),
		s.fleet.Release(ctx, "mailer", sample.Mailer("").Component(), sample.Channel("regular", "1.0.0")))
}

func (s *demoFleet) enroll(ctx context.Context) error {
	var err error
	if s.berlin, err = s.fleet.AddRuntime(ctx, "berlin", "regular", "scaler"); err != nil {
		return err
	}
	s.tokyo, err = s.fleet.AddRuntime(ctx, "tokyo", "regular", "scaler")
	return err
}

func (s *demoFleet) both(does func(*fleet.Runtime) error) error {
	return errors.Join(does(s.berlin), does(s.tokyo))
}

func (s *demoFleet) installed(ctx context.Context) error {
	return s.both(func(r *fleet.Runtime) error {
		if err := r.UntilState(ctx, "scaler", "1.7.0", v1beta2.StateReady); err != nil {
			return err
		}
		return r.API.Get(ctx, client.ObjectKey{Name: "scaler-priority"}, &schedulingv1.PriorityClass{})
	})
}

func (s *demoFleet) promoted(ctx context.Context) error {
	err := s.fleet.Release(ctx, "scaler", sample.Scaler("").Component(), sample.Channel("regular", "1.8.0"),
		sample.Channel("fast", "1.8.0"))
	if err != nil {
		return err
	}
	return s.both(func(r *fleet.Runtime) error {
		if err := r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady); err != nil {
			return err
		}
		return fleet.Until(ctx, 20*time.Second, r.ID+" has no PriorityClass any more", func() (bool, string) {
			err := r.API.Get(ctx, client.ObjectKey{Name: "scaler-priority"}, &schedulingv1.PriorityClass{})
			return apierrors.IsNotFound(err), fmt.Sprint(err)
		})
	})
}

func (s *demoFleet) drift(ctx context.Context) error {
	key := client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: "scaler-settings"}
	settings := &corev1.ConfigMap{}
	if err := s.berlin.API.Get(ctx, key, settings); err != nil {
		return err
	}
	before := settings.DeepCopy()
	settings.Data["level"] = "debug"
	if err := s.berlin.API.Patch(ctx, settings, client.MergeFrom(before)); err != nil {
		return err
	}
	return fleet.Until(ctx, 30*time.Second, "the setting is back", func() (bool, string) {
		err := s.berlin.API.Get(ctx, key, settings)
		return err == nil && settings.Data["level"] == "info", fmt.Sprint(settings.Data, err)
	})
}

func (s *demoFleet) tampered(ctx context.Context) error {
	honest, err := s.tokyo.Desired(ctx)
	if err != nil {
		return err
	}
	forged, err := forge(honest.Bytes)
	if err != nil {
		return err
	}
	if err := s.tokyo.Put(ctx, bundle.NewBlob(ocispec.MediaTypeImageManifest, forged)); err != nil {
		return err
	}
	if err := s.tokyo.UntilAccepted(ctx, metav1.ConditionFalse, string(refusal.BadSignature)); err != nil {
		return err
	}
	if err := s.tokyo.API.Get(ctx, client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: "scaler-settings"},
		&corev1.ConfigMap{}); err != nil {
		return fmt.Errorf("an installed object is gone: %w", err)
	}
	if err := s.tokyo.Put(ctx, bundle.NewBlob(ocispec.MediaTypeImageManifest, honest.Bytes)); err != nil {
		return err
	}
	return s.tokyo.UntilAccepted(ctx, metav1.ConditionTrue, "Accepted")
}

// forge changes one character of the signed statement, as an attacker could.
func forge(manifest []byte) ([]byte, error) {
	var m ocispec.Manifest
	if err := json.Unmarshal(manifest, &m); err != nil {
		return nil, err
	}
	const field = `"payload":"`
	text := m.Annotations[bundle.AnnotationAttestation]
	at := strings.Index(text, field) + len(field) + 40
	flipped := byte('A')
	if text[at] == flipped {
		flipped = 'B'
	}
	m.Annotations[bundle.AnnotationAttestation] = text[:at] + string(flipped) + text[at+1:]
	return json.Marshal(m)
}

func (s *demoFleet) adminAdds(ctx context.Context) error {
	err := s.tokyo.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		spec.Modules = append(spec.Modules, v1beta2.Module{
			Name: "mailer", Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
		})
	})
	if err != nil {
		return err
	}
	return s.tokyo.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady)
}

// table prints a table of both runtimes and their modules, from the statuses of the Kymas in the control plane.
func (s *demoFleet) table(ctx context.Context, out io.Writer) error {
	t := table.NewWriter()
	t.SetOutputMirror(out)
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"RUNTIME", "STATE", "MODULE", "CHANNEL", "VERSION", "STATE", "BUNDLE", "KUBERNETES"})
	for _, r := range []*fleet.Runtime{s.berlin, s.tokyo} {
		kyma, err := r.Record(ctx)
		if err != nil {
			return err
		}
		observed := kyma.Status.Runtime.Observed
		for _, m := range kyma.Status.Modules {
			t.AppendRow(
				table.Row{
					r.ID,
					kyma.Status.State,
					m.Name,
					m.Channel,
					m.Version,
					m.State,
					observed.Sequence,
					observed.KubernetesVersion,
				},
			)
		}
	}
	fmt.Fprintln(out)
	t.Render()
	return nil
}
