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
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/charts"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/internal/manager"
	"github.com/kyma-pull/kyma-pull/internal/preflight"
)

// rightsDir is the chart's folder with the agent's RBAC files.
const rightsDir = "skr-agent/rbac"

const (
	// enrollAdvice is the advice if the bootstrap Secret is missing or invalid.
	enrollAdvice = "apply the output of `kcp-publisher enroll` for this runtime"
	// readAdvice is the advice if a Secret could not be read.
	readAdvice = "check as the agent, with --as system:serviceaccount:" + v1beta2.RuntimeNamespace +
		":skr-agent, or as a user with read access to Secrets in " + v1beta2.RuntimeNamespace
)

// adviceFor returns readAdvice if the API server rejected the request or did not respond. For other errors, it returns
// the caller's advice.
func adviceFor(err error, advice string) string {
	if manager.IsTemporary(err) {
		return readAdvice
	}
	return advice
}

type checkFlags struct {
	run         runFlags
	cluster     cli.Cluster
	accounts    guard.Accounts
	mirrors     map[string]string
	self, write bool
	format      string
}

func newCheck() *cobra.Command {
	f := &checkFlags{}
	cmd := &cobra.Command{
		Use: "check", Short: "check enrollment, permissions, CRDs, registry and clock before `run`",
		Args: cli.Exactly(0, "no arguments"),
		Long: "check tests the requirements of `run`: Secret kyma-system/" + bootstrapSecret +
			", the permissions of the chart's RBAC, CRDs, a registry\n" +
			"with a bundle that the agent would accept, and a correct clock. It changes nothing, except that " +
			"--registry-write pushes an empty blob.\n\n" +
			"It checks the permissions of the current user. To check the permissions of the agent, add --as " +
			"system:serviceaccount:kyma-system:skr-agent.\n\n" +
			"The exit code is 1 if a check failed, and 0 otherwise. Warnings do not affect it.",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.runCheck(cmd) },
	}
	flags := cmd.Flags()
	f.cluster.AddFlags(flags, "the runtime")
	f.cluster.AddTimeoutFlag(flags)
	flags.StringVar(&f.run.trust, "trust", "", trustUsage)
	flags.StringVar(&f.run.runtime, "runtime", "", runtimeUsage)
	flags.StringVar(&f.run.location, "location", "", locationUsage)
	flags.DurationVar(&f.run.skew, "clock-skew", trust.MaxClockSkew, clockSkewUsage)
	flags.StringArrayVar(
		&f.run.accounts,
		"module-service-account",
		nil,
		"value of run --module-service-account to check: the agent must be able to impersonate the ServiceAccount, "+
			"and have the permissions of charts/"+rightsDir+"/module-account.yaml; default: the agent's own permissions for "+
			"all modules; can be repeated",
	)
	flags.StringArrayVar(&f.run.mirrors, "mirror", nil,
		"mirror to check, as FROM=TO, the format of run --mirror; can be repeated")
	flags.BoolVar(&f.self, "self-upgrade", false,
		"also check the permissions that the agent needs to upgrade its own image")
	flags.BoolVar(&f.write, "registry-write", false,
		"also push an empty blob to check the permission to write reports to the registry")
	cli.OutputFlag(flags, &f.format)
	f.run.registry.AddFlags(flags)
	return cmd
}

func (f *checkFlags) runCheck(cmd *cobra.Command) error {
	if f.run.skew <= 0 {
		return cli.Usage(fmt.Errorf("--clock-skew %s: must be more than 0", f.run.skew))
	}
	var err error
	if f.accounts, err = guard.ParseAccounts(f.run.accounts, v1beta2.RuntimeNamespace); err != nil {
		return cli.Usage(fmt.Errorf("--module-service-account: %w", err))
	}
	if f.mirrors, err = bundle.ParseMirrors(f.run.mirrors); err != nil {
		return cli.Usage(err)
	}
	findings := f.collectFindings(cmd.Context())
	return errors.Join(preflight.Summarize(findings),
		cli.Print(cmd.OutOrStdout(), f.format, findings, func(out io.Writer) { preflight.Draw(out, findings) }))
}

func (f *checkFlags) collectFindings(ctx context.Context) []preflight.Finding {
	const check = "API server of the runtime"
	config, err := f.cluster.Config()
	if err != nil {
		return []preflight.Finding{preflight.Fail(check, err.Error(), "set the kubeconfig with --kubeconfig")}
	}
	api, err := preflight.Connect(config, "the runtime", preflight.NewTimes(time.Now))
	if err != nil {
		return []preflight.Finding{preflight.Fail(check, err.Error(), "")}
	}
	findings, answers := api.CheckReachable(ctx)
	if !answers {
		return findings
	}
	findings = append(findings, f.checkPermissions(ctx, api, config)...)
	findings = append(
		findings,
		api.Definitions(ctx, charts.AgentCRDs, "skr-agent/crds", preflight.Warning,
			"the agent installs it at startup")...)
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta2.AddToScheme(scheme)); err != nil {
		return append(findings, preflight.Fail(check, err.Error(), ""))
	}
	reader, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return append(findings, preflight.Fail(check, err.Error(), ""))
	}
	return append(findings, f.checkEnrollment(ctx, reader)...)
}

// checkEnrollment checks the bootstrap Secret, the registry and the newest bundle.
func (f *checkFlags) checkEnrollment(ctx context.Context, reader client.Client) []preflight.Finding {
	var namespace corev1.Namespace
	if err := reader.Get(ctx, client.ObjectKey{Name: v1beta2.RuntimeNamespace}, &namespace); apierrors.IsNotFound(err) {
		return []preflight.Finding{
			preflight.Fail("namespace "+v1beta2.RuntimeNamespace, "not found",
				"kubectl create namespace "+v1beta2.RuntimeNamespace),
		}
	}
	// Ignore other errors, such as a missing permission. The check reads the Secrets in this namespace next, which also
	// shows whether the namespace exists.
	known, err := readBootstrap(ctx, reader, &f.run)
	if err != nil {
		return []preflight.Finding{preflight.Fail("enrollment", err.Error(), adviceFor(err, enrollAdvice))}
	}
	key, ownKey := checkOwnKey(ctx, reader)
	findings := []preflight.Finding{ownKey}
	uid, err := clusterUID(ctx, reader)
	if err != nil {
		findings = append(findings,
			preflight.Fail("identity of the cluster", err.Error(), "grant the agent read access to this Namespace"))
	}
	times := preflight.NewTimes(time.Now)
	access := known.access
	access.Observe = times.Wrap
	installed, registries, err := f.run.registry.Open("--location", known.location, access)
	if err != nil {
		return append(findings, preflight.Registry("registry", known.location, "", err))
	}
	s := agentState{known, key, thumbprintOf(key), uid}
	puller := f.newPuller(reader, installed, registries, s)
	restored := puller.Restore(ctx)
	place := puller.Location() // can differ from the location in the bootstrap Secret
	if err := store.Ping(ctx, place); err != nil {
		return append(findings, preflight.Registry("registry", place.String(), "", err))
	}
	findings = append(findings, preflight.Pass("registry", place.String()+" is reachable"))
	if !store.IsLayout(place) {
		ahead, sent := times.Ahead()
		findings = append(findings, preflight.Clock("the registry", ahead, sent))
	}
	findings = append(findings, checkBundle(ctx, puller, restored, s)...)
	if f.write {
		findings = append(findings, checkReporting(ctx, puller.Location(), known.runtime))
	}
	return findings
}

// checkOwnKey checks the agent's key and returns it. It returns nil if the key is unreadable. The agent creates the key
// at its first start. Before that, checkOwnKey returns a temporary key, which no bundle contains.
func checkOwnKey(ctx context.Context, reader client.Reader) (trust.Signer, preflight.Finding) {
	const check = "key of the agent"
	key, err := readOwnKey(ctx, reader)
	if errors.Is(err, errInvalidKey) {
		return nil, preflight.Fail(check, err.Error(), "delete the Secret, and enroll the runtime again")
	}
	if err != nil {
		return nil, preflight.Fail(check, err.Error(), readAdvice)
	}
	message := "not found; the agent creates it at its first start"
	if key == nil {
		var data []byte
		if data, err = trust.GenerateKey(); err == nil {
			key, err = trust.LoadSigner(data)
		}
	} else {
		message = trust.ShortThumbprint(thumbprintOf(key)) + " can be read"
	}
	if err != nil {
		return nil, preflight.Fail(check, err.Error(), "")
	}
	return key, preflight.Pass(check, message)
}

// thumbprintOf returns a key's thumbprint. It returns "" if the key is nil or has no public key.
func thumbprintOf(key trust.Signer) string {
	if key == nil {
		return ""
	}
	public, err := key.PublicKey()
	if err != nil {
		return ""
	}
	thumbprint, _ := trust.Thumbprint(public)
	return thumbprint
}

// checkReporting checks write access to the repository for the agent's reports.
func checkReporting(ctx context.Context, place store.Store, runtime string) preflight.Finding {
	repository, err := place.Repository(ctx, bundle.ReportRepository(runtime))
	if err == nil {
		err = store.PushBlob(ctx, repository, bundle.EmptyBlob())
	}
	return preflight.Registry("write reports to the registry", place.String(), "an empty blob was pushed", err)
}
