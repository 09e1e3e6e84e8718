package ingest

import "github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"

// lastCertificate returns the validity period of the certificate in the latest bundle. If that bundle has no
// certificate, it returns the period in the previous status.
func lastCertificate(before *v1beta2.RuntimeStatus, published v1beta2.PublishedBundle) *v1beta2.CertificateLife {
	if published.Certificate == nil && before != nil && before.Published != nil && before.Key != nil {
		return before.Published.Certificate.DeepCopy()
	}
	return published.Certificate
}

// clearCertificate removes the certificate's validity period from the status if the agent enrolled with another key.
func clearCertificate(r *v1beta2.RuntimeStatus, thumbprint string) {
	if r.Published != nil && r.Key != nil && r.Key.Thumbprint != thumbprint {
		r.Published.Certificate = nil
	}
}
