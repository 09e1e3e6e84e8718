package ingest

import "github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"

// lastCertificate returns the life of the certificate that was issued to the agent last. A bundle brings none once the
// last one has expired, or while the enrollment key is missing, which is when people have to know of it.
func lastCertificate(before *v1beta2.RuntimeStatus, published v1beta2.PublishedBundle) *v1beta2.CertificateLife {
	if published.Certificate == nil && before != nil && before.Published != nil && before.Key != nil {
		return before.Published.Certificate.DeepCopy()
	}
	return published.Certificate
}

// forgetCertificate forgets the certificate of a key that is replaced by another one: it says nothing about that.
func forgetCertificate(r *v1beta2.RuntimeStatus, thumbprint string) {
	if r.Published != nil && r.Key != nil && r.Key.Thumbprint != thumbprint {
		r.Published.Certificate = nil
	}
}
