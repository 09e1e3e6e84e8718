package ingest

import "github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"

// lastCertificate returns the validity of the last certificate of the agent. After it expires, or while the enrollment
// key is missing, bundles contain no certificate, and operators must learn about that.
func lastCertificate(before *v1beta2.RuntimeStatus, published v1beta2.PublishedBundle) *v1beta2.CertificateLife {
	if published.Certificate == nil && before != nil && before.Published != nil && before.Key != nil {
		return before.Published.Certificate.DeepCopy()
	}
	return published.Certificate
}

// forgetCertificate drops the certificate when another key replaces its key.
func forgetCertificate(r *v1beta2.RuntimeStatus, thumbprint string) {
	if r.Published != nil && r.Key != nil && r.Key.Thumbprint != thumbprint {
		r.Published.Certificate = nil
	}
}
