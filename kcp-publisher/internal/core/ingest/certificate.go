package ingest

import "github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"

// lastCertificate returns the validity period of the certificate last issued to the agent, for warnings about its
// expiry. It returns the period recorded in the status if the latest bundle contains no certificate, because the
// certificate has expired or the publisher has no enrollment key.
func lastCertificate(before *v1beta2.RuntimeStatus, published v1beta2.PublishedBundle) *v1beta2.CertificateLife {
	if published.Certificate == nil && before != nil && before.Published != nil && before.Key != nil {
		return before.Published.Certificate.DeepCopy()
	}
	return published.Certificate
}

// forgetCertificate removes the certificate from the status if the runtime enrolled with another key.
func forgetCertificate(r *v1beta2.RuntimeStatus, thumbprint string) {
	if r.Published != nil && r.Key != nil && r.Key.Thumbprint != thumbprint {
		r.Published.Certificate = nil
	}
}
