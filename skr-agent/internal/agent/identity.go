package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// addIdentity adds the agent's identity to a report: the fleet, the certificate or a certificate request, and the
// enrollment if the control plane does not have the agent's key yet.
func (a *Agent) addIdentity(log logr.Logger, r *bundle.Report) error {
	r.Fleet = a.Puller.Root().Fleet
	public, err := a.Signer.PublicKey()
	if err != nil {
		return fmt.Errorf("read the runtime's key: %w", err)
	}
	thumbprint, err := trust.Thumbprint(public)
	if err != nil {
		return err
	}
	certificate := a.currentCertificate(log, thumbprint)
	if certificate != nil {
		r.Certificate = a.Puller.Current().Statement.Predicate.Certificate
	}
	if len(a.Puller.Root().Enrollers()) > 0 {
		if r.CertificateRequest, err = a.requestCertificate(certificate); err != nil {
			return err
		}
	}
	trusted := a.Puller.CurrentTrust()
	if owner := trusted.Owner(); owner.Name != "" {
		r.Owner = &owner
	}
	key := keyFacts{
		thumbprint: thumbprint, current: a.Puller.Current(), refused: a.Puller.RefusedBundles(),
		isReassigned: trusted.IsReassigned(), twin: a.twinDetector.twin, isConfirmed: a.twinDetector.isConfirmed(),
	}
	if a.Token == nil || !key.mustEnroll() {
		return nil
	}
	encoded, err := trust.EncodePublicKey(public)
	if err != nil {
		return err
	}
	proof, err := a.Token.Prove(a.Runtime, public)
	if err != nil {
		return err
	}
	r.Enrollment = &trust.Enrollment{PublicKey: encoded, Proof: proof, TokenExpires: a.Token.Expires.Unix()}
	return nil
}

// enrollmentProblem returns the reason why the control plane refuses this agent's reports. It returns "" if the control
// plane accepts them, and before the first bundle.
func (a *Agent) enrollmentProblem(log logr.Logger) string {
	b := a.Puller.Current()
	public, err := a.Signer.PublicKey()
	if b == nil || err != nil {
		return ""
	}
	thumbprint, err := trust.Thumbprint(public)
	if err != nil {
		return ""
	}
	why := enrollmentProblem(b.Statement.Predicate, thumbprint, a.currentCertificate(log, thumbprint) != nil, a.Token,
		a.Now())
	if a.logged.Update(loggedUnenrolled, why) && why != "" {
		log.Info("the control plane refuses reports: " + why)
	}
	return why
}

// currentCertificate returns the agent's certificate in the last accepted bundle, or nil if it is missing or invalid.
func (a *Agent) currentCertificate(log logr.Logger, thumbprint string) *trust.Certificate {
	certificateExpiry.Unset()
	b := a.Puller.Current()
	if b == nil || b.Statement.Predicate.Certificate == "" {
		return nil
	}
	certificate, err := findCertificate(b.Statement.Predicate, a.Puller.Root(), a.Runtime, thumbprint, a.Now())
	if err != nil {
		if a.logged.Update(loggedCertificate, err.Error()) {
			log.Error(err, "refused the certificate in the bundle, requesting another")
		}
		return nil
	}
	a.logged.Update(loggedCertificate, "")
	certificateExpiry.Set(float64(certificate.NotAfter.Unix()))
	return certificate
}

// requestCertificate returns a certificate request if the agent has no certificate or must renew it. It repeats the
// same request until a bundle contains the certificate.
func (a *Agent) requestCertificate(certificate *trust.Certificate) (string, error) {
	if certificate != nil && a.Now().Before(certificate.RenewAt().Truncate(time.Second)) {
		a.certificateRequest = ""
		return "", nil
	}
	if a.certificateRequest == "" {
		request, err := trust.NewCertificateRequest(a.Signer)
		if err != nil {
			return "", err
		}
		a.certificateRequest = request
	}
	return a.certificateRequest, nil
}

// BootstrapSecret is the name of the Secret that an operator applies to enroll the runtime.
const BootstrapSecret = "skr-agent-bootstrap"

// restartIfReenrolled restarts the agent if an operator applied another bootstrap Secret. The agent reads the Secret
// only at startup. If the new Secret is invalid, the agent logs the error and continues with the previous one.
func (a *Agent) restartIfReenrolled(ctx context.Context, log logr.Logger) bool {
	if a.EnrollmentChanged == nil {
		return false
	}
	again, err := a.EnrollmentChanged(ctx)
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		a.enrolled.Store(true) // the next reconciliation reads the Secret again
		if a.logged.Update(loggedBootstrap, err.Error()) {
			log.Error(err, "failed to read the new bootstrap Secret, continuing with the previous one")
		}
		return false
	}
	a.logged.Update(loggedBootstrap, "")
	if again {
		log.Info("the bootstrap Secret changed, restarting", "secret", BootstrapSecret)
		a.Restart()
	}
	return again
}
