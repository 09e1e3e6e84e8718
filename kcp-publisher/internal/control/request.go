package control

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/resolve"
)

// Request gives what a Kyma's runtime asks for, as far as the Kyma says it.
func (k *Kymas) Request(kyma *v1beta2.Kyma) (resolve.Request, error) {
	request := asked(kyma, k.ClusterUID)
	request.Settings = k.Settings
	var err error
	if request.Maintenance, err = k.Maintenance.Schedule(kyma); err != nil && !request.Deleting {
		return request, err
	}
	request.Watchers, _ = k.Watchers.Snapshot()
	if autonomy, own := kyma.Annotations[v1beta2.AnnotationAutonomy]; own {
		request.Settings.Autonomy = autonomy
	}
	if image, own := kyma.Annotations[v1beta2.AnnotationAgentImage]; own {
		request.Settings.Agent = image
	}
	if err := request.Settings.Check(); err != nil {
		return request, fmt.Errorf("annotations: %w", err)
	}
	request.NoCatalog = kyma.Labels[v1beta2.LabelSync] == v1beta2.False || kyma.Annotations[v1beta2.AnnotationSyncCatalog] == v1beta2.False
	request.NoModuleCopy = kyma.Annotations[v1beta2.AnnotationNoModuleCopy] == v1beta2.True
	return request, nil
}

// request adds what the runtime's newest report says.
func (k *Kymas) request(kyma *v1beta2.Kyma, report *bundle.AcceptedReport) (resolve.Request, error) {
	request, err := k.Request(kyma)
	if err != nil || report == nil {
		return request, err
	}
	for _, m := range report.Modules {
		asked := func(module v1beta2.Module) bool { return module.Name == m.Name }
		if m.Channel != "" && !slices.ContainsFunc(request.Asked.Modules, asked) {
			request.Leaving = append(request.Leaving, v1beta2.Module{Name: m.Name, Channel: m.Channel, Managed: true})
		}
	}
	return request, nil
}

// asked is the part of a request that says which modules a Kyma is to have.
func asked(kyma *v1beta2.Kyma, clusterUID string) resolve.Request {
	request := resolve.Request{Labels: kyma.Labels, Seed: kyma.Spec, Asked: kyma.Spec, Deleting: !kyma.DeletionTimestamp.IsZero()}
	r := kyma.Status.Runtime
	request.ControlPlane = r != nil && r.Observed != nil && r.Observed.ClusterUID != "" && r.Observed.ClusterUID == clusterUID
	if r != nil && r.Requested != nil && kyma.Labels[v1beta2.LabelSync] != v1beta2.False {
		request.Asked = r.Requested.Spec
	}
	return request
}

func (k *Kymas) runtime(kyma *v1beta2.Kyma, id string, report heard) publish.Runtime {
	r := publish.Runtime{ID: id, Audience: bundle.Audience{Runtime: id}, Deleting: !kyma.DeletionTimestamp.IsZero()}
	if silence, carried, err := k.allowed(kyma); carried && err == nil {
		r.Validity = silence // what may be on its way for that long must still be good when it arrives
	}
	if k.Source != nil {
		r.Source = k.Source()
	}
	status := kyma.Status.Runtime
	if status == nil {
		return r
	}
	if status.Published != nil {
		r.LastEpoch, r.LastSequence, r.Versions = status.Published.Epoch, status.Published.Sequence, status.Published.Versions
	}
	if status.Requested != nil {
		r.KymaGeneration = status.Requested.Generation
	}
	if status.Observed != nil {
		r.Audience.ClusterUID = status.Observed.ClusterUID
	}
	if status.Key != nil {
		r.Audience.KeyThumbprint = status.Key.Thumbprint
		if slices.Contains(revokedKeys(kyma), status.Key.Thumbprint) || k.Publisher.Root().IsRevoked(status.Key.Thumbprint) {
			r.Audience.KeyThumbprint = bundle.AudienceNobody
		} else if key, err := trust.DecodePublicKey(status.Key.PublicKey); err == nil {
			r.Key = key
		}
	}
	if report.accepted != nil && r.Key != nil && report.accepted.CertificateRequest != "" {
		r.Requests = asksFor(report.accepted.CertificateRequest, r.Audience.KeyThumbprint)
	}
	// Both from the same report: what the runtime has means something only together with what it lives by.
	if report.accepted != nil {
		if o := report.accepted.Observed; o != nil {
			r.Observed = o.Digest
		}
		for _, m := range report.accepted.Modules {
			r.Installed = append(r.Installed, m.Name)
		}
	}
	return r
}

// asksFor tells whether a request proves to hold the runtime's key.
func asksFor(request, thumbprint string) bool {
	key, err := trust.Requested(request)
	if err != nil {
		return false
	}
	proven, err := trust.Thumbprint(key)
	return err == nil && proven == thumbprint
}

// revokedKeys are the thumbprints of agents' keys that the Kyma says are not to be believed.
func revokedKeys(kyma *v1beta2.Kyma) []string {
	return strings.Fields(kyma.Annotations[v1beta2.AnnotationRevokedKeys])
}
