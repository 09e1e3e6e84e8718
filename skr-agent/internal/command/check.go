package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/charts"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/preflight"
)

// rightsDir is where the chart has what the agent may do.
const rightsDir = "skr-agent/rbac"

// enrollAdvice is what makes a bootstrap Secret.
const enrollAdvice = "apply what `kcp-publisher enroll` prints for this runtime"

// checkFlags are what `check` takes.
type checkFlags struct {
	run              runFlags
	cluster          cli.Cluster
	restricted, self bool
	write            bool
	format           string
}

func newCheck() *cobra.Command {
	f := &checkFlags{}
	cmd := &cobra.Command{
		Use: "check", Short: "checks enrollment, rights, definitions, registry and clock before `run`", Args: cli.Exactly(0, "no arguments"),
		Long: "check looks for what `run` needs: what Secret kyma-system/" + bootstrapSecret + " brings, the rights of the chart's RBAC, definitions, a registry that answers with a bundle\n" +
			"that would be accepted, and a clock that is right. It changes nothing, unless --registry-write has it push an empty blob.\n\n" +
			"The rights are those of the user who runs it. To check those of the agent, add --as system:serviceaccount:kyma-system:skr-agent.\n\n" +
			"Exit code 0 says that nothing failed; warnings do not count. 1 says that something did.",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.check(cmd) },
	}
	flags := cmd.Flags()
	f.cluster.AddFlags(flags, "the runtime")
	f.cluster.AddTimeoutFlag(flags)
	flags.StringVar(&f.run.trust, "trust", "", "root of trust; default: root.json of the bootstrap Secret")
	flags.StringVar(&f.run.runtime, "runtime", "", "runtime id; default: the bootstrap Secret's")
	flags.StringVar(&f.run.location, "location", "", "registry prefix HOST/PATH, or oci-layout:DIR; default: the bootstrap Secret's")
	flags.DurationVar(&f.run.skew, "clock-skew", trust.MaxClockSkew, clockSkewUsage)
	flags.BoolVar(&f.restricted, "module-service-account", false, "modules have ServiceAccounts of their own, as with the same flag of run: the agent needs no more than charts/"+rightsDir+"/agent.yaml")
	flags.BoolVar(&f.self, "self-upgrade", false, "bundles may change the agent's image, which takes rights on top")
	flags.BoolVar(&f.write, "registry-write", false, "also push an empty blob, to see whether the registry lets the agent report")
	cli.OutputFlag(flags, &f.format)
	f.run.registry.AddFlags(flags)
	return cmd
}

func (f *checkFlags) check(cmd *cobra.Command) error {
	if f.run.skew <= 0 {
		return cli.Usage(fmt.Errorf("--clock-skew %s: want more than 0", f.run.skew))
	}
	findings := f.findings(cmd.Context())
	return errors.Join(preflight.Summarize(findings), cli.Print(cmd.OutOrStdout(), f.format, findings, func(out io.Writer) { preflight.Draw(out, findings) }))
}

func (f *checkFlags) findings(ctx context.Context) []preflight.Finding {
	const check = "API server of the runtime"
	config, err := f.cluster.Config()
	if err != nil {
		return []preflight.Finding{preflight.Fail(check, err.Error(), "name the kubeconfig with --kubeconfig")}
	}
	api, err := preflight.Connect(config, "the runtime", preflight.NewTimes(time.Now))
	if err != nil {
		return []preflight.Finding{preflight.Fail(check, err.Error(), "")}
	}
	findings, answers := api.Reachable(ctx)
	if !answers {
		return findings
	}
	parts := []string{"agent"}
	if !f.restricted {
		parts = append(parts, "all-modules")
	}
	if f.self {
		parts = append(parts, "self-upgrade")
	}
	findings = append(findings, api.Rights(ctx, charts.AgentRBAC, rightsDir, parts, nil, func(file string) string {
		return "the chart gives them; without it, apply charts/" + file
	})...)
	findings = append(findings, api.Definitions(ctx, charts.AgentCRDs, "skr-agent/crds", preflight.Warning, "the agent brings it when it starts")...)
	reader, err := client.New(config, client.Options{})
	if err != nil {
		return append(findings, preflight.Fail(check, err.Error(), ""))
	}
	return append(findings, f.enrollment(ctx, reader)...)
}

// enrollment looks at what the operator brought, and by that at the registry.
func (f *checkFlags) enrollment(ctx context.Context, reader client.Reader) []preflight.Finding {
	var namespace corev1.Namespace
	if err := reader.Get(ctx, client.ObjectKey{Name: v1beta2.RuntimeNamespace}, &namespace); apierrors.IsNotFound(err) {
		return []preflight.Finding{preflight.Fail("namespace "+v1beta2.RuntimeNamespace, "is not there", "kubectl create namespace "+v1beta2.RuntimeNamespace)}
	} // one that must not be read is there as long as its Secrets are
	known, err := readBootstrap(ctx, reader, &f.run)
	if err != nil {
		return []preflight.Finding{preflight.Fail("enrollment", err.Error(), enrollAdvice)}
	}
	thumbprint, findings := checkOwnKey(ctx, reader)
	uid, err := clusterUID(ctx, reader)
	if err != nil {
		findings = append(findings, preflight.Fail("identity of the cluster", err.Error(), "let the agent read that Namespace"))
	}
	times := preflight.NewTimes(time.Now)
	access := known.access
	access.Observe = times.Wrap
	place, registries, err := f.run.registry.Open("--location", known.location, access)
	if err == nil {
		err = store.Ping(ctx, place)
	}
	if err != nil {
		return append(findings, preflight.Registry("registry", known.location, "", err))
	}
	findings = append(findings, preflight.Pass("registry", known.location+": answers"))
	if !store.IsLayout(place) {
		ahead, sent := times.Ahead()
		findings = append(findings, preflight.Clock("the registry", ahead, sent))
	}
	trusted := bundle.Trust{Root: known.root, Runtime: known.runtime, ClusterUID: uid, ClockSkew: f.run.skew}
	findings = append(findings, checkBundle(ctx, place, registries, known, trusted, thumbprint)...)
	if f.write {
		findings = append(findings, checkReporting(ctx, place, known.runtime))
	}
	return findings
}

// checkOwnKey looks at the agent's key, which its first start makes. The thumbprint is empty where there is none.
func checkOwnKey(ctx context.Context, reader client.Reader) (string, []preflight.Finding) {
	const check = "key of the agent"
	name := client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: keySecret}
	var secret corev1.Secret
	err := reader.Get(ctx, name, &secret)
	if apierrors.IsNotFound(err) {
		return "", []preflight.Finding{preflight.Pass(check, "is made when the agent starts")}
	}
	var signer trust.Signer
	if err == nil {
		signer, err = trust.LoadSigner(secret.Data[fieldKey])
	}
	if err != nil {
		return "", []preflight.Finding{preflight.Fail(check, fmt.Sprintf("Secret %s: %v", name, err), "where it is broken, delete the Secret, enroll the runtime again and restart the agent")}
	}
	public, err := signer.PublicKey()
	if err != nil {
		return "", []preflight.Finding{preflight.Fail(check, err.Error(), "")}
	}
	thumbprint, err := trust.Thumbprint(public)
	if err != nil {
		return "", []preflight.Finding{preflight.Fail(check, err.Error(), "")}
	}
	return thumbprint, []preflight.Finding{preflight.Pass(check, trust.ShortThumbprint(thumbprint)+" can be read")}
}

// checkBundle judges what the registry has for the runtime, as the agent would.
func checkBundle(ctx context.Context, place store.Store, registries *store.Registries, known bootstrap, trusted bundle.Trust, thumbprint string) []preflight.Finding {
	const check, renew = "bundle", "sign a newer root of trust in the control plane, publish, and enroll the runtime again if it is far behind"
	var accepted bundle.Bundle
	root := trusted.Root
	desired, err := place.Reading(ctx, bundle.DesiredRepository(known.runtime))
	if err == nil {
		accepted, root, err = verifyAt(ctx, registries, location{place, desired, bundle.TagDesired}, trusted)
	}
	findings := []preflight.Finding{preflight.Root("what this runtime trusts", root, renew, time.Now())}
	switch {
	case errors.Is(err, store.ErrNotFound):
		findings = append(findings, preflight.Warn(check, fmt.Sprintf("%s has none of runtime %s", place, known.runtime), "create the Kyma of this runtime id in the control plane; or the id is wrong"))
	case refusal.Of(err) != nil:
		findings = append(findings, preflight.Fail(check, err.Error(), "see docs/guides/troubleshooting.md"))
	case err != nil:
		findings = append(findings, preflight.Registry(check, place.String(), "", err))
	default:
		findings = append(findings, preflight.Pass(check, fmt.Sprintf("%d would be accepted", accepted.Statement.Predicate.Sequence)))
	}
	return append(findings, judgeEnrollment(accepted.Statement.Predicate.Audience.KeyThumbprint, thumbprint, known.token, time.Now()))
}

// judgeEnrollment decides whether the control plane knows the agent's key, or can get to know it. The key that the bundle names is the one it knows.
func judgeEnrollment(named, own string, token *trust.Token, now time.Time) preflight.Finding {
	const check = "enrollment"
	switch {
	case own != "" && named == own:
		return preflight.Pass(check, "the control plane knows the agent's key")
	case token == nil:
		return preflight.Fail(check, "the control plane does not know the agent's key, and there is no token to introduce it", enrollAdvice)
	case !now.Before(token.Expires):
		return preflight.Fail(check, "the control plane does not know the agent's key, and the token to introduce it expired at "+token.Expires.UTC().Format(time.RFC3339), enrollAdvice)
	}
	return preflight.Pass(check, "a token introduces the agent's key until "+token.Expires.UTC().Format(time.RFC3339))
}

// checkReporting tries to write where the agent's reports go.
func checkReporting(ctx context.Context, place store.Store, runtime string) preflight.Finding {
	repository, err := place.Repository(ctx, bundle.ReportRepository(runtime))
	if err == nil {
		err = store.PushBlob(ctx, repository, bundle.EmptyBlob())
	}
	return preflight.Registry("registry, to report", place.String(), "an empty blob was pushed", err)
}
