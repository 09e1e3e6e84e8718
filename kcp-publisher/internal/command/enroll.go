package command

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
)

func newEnroll() *cobra.Command {
	var dir, location, notifications string
	var validity time.Duration
	var registry cli.Registry
	var password, replace bool
	var generation int
	var owner, uid string
	cmd := &cobra.Command{
		Use: "enroll RUNTIME-ID", Short: "print the bootstrap Secret for a runtime's agent", Args: cli.Exactly(1, "one runtime id"),
		Long: "enroll prints a Secret with a token that lets the runtime's agent introduce its key. The token counts for one Kyma: --kyma, or else the\n" +
			"Kyma " + defaultNamespace + "/RUNTIME-ID. The newest token that an agent uses decides which of several Kymas owns the runtime. With --replace, the\n" +
			"runtime can come from another control plane: its agent drops the root of trust and the bundle that it remembers, and uninstalls nothing.",
		Example: "  kcp-publisher enroll berlin --keys keys --location registry.example/fleet | kubectl --context berlin apply -f -\n" +
			"  kcp-publisher enroll berlin --kyma kcp-system/berlin-2 --replace --keys keys --location registry.example/fleet",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := trust.CheckRuntimeID(args[0]); err != nil {
				return cli.Usage(err)
			}
			kyma, err := trust.ParseKyma(cmp.Or(owner, args[0]))
			if err != nil {
				return cli.Usage(fmt.Errorf("--kyma: %w", err))
			}
			kyma.UID = uid
			if err := kyma.Check(); err != nil {
				return cli.Usage(fmt.Errorf("--kyma-uid: %w", err))
			}
			if location == "" {
				return cli.Usage(fmt.Errorf("--location is required: the registry prefix that the runtime pulls from"))
			}
			root, err := keys.Folder{Dir: dir}.Root()
			if err != nil {
				return err
			}
			secret, err := keys.Folder{Dir: dir}.TokenSecret()
			if err != nil {
				return err
			}
			token, err := secret.IssueFor(kyma, args[0], time.Now().Add(validity))
			if err != nil {
				return err
			}
			access, err := registry.Access(store.Access{})
			if err != nil {
				return err
			}
			if password {
				if access.DockerConfig, err = registryCredentials(access.DockerConfig, dir, location, args[0], generation); err != nil {
					return err
				}
			}
			if notifications != "" {
				if access.DockerConfig, err = notificationCredentials(access.DockerConfig, dir, notifications, args[0], generation); err != nil {
					return err
				}
			}
			data := map[string]string{
				"root.json": string(root.Raw),
				"location":  location,
				"runtime":   args[0],
				"token":     token.String(),
				"kyma":      kyma.Namespace + "/" + kyma.Name,
			}
			if uid != "" {
				data["kymaUID"] = uid
			}
			if replace {
				data["replace"] = v1beta2.True
			}
			if notifications != "" {
				data["notifications"] = notifications
			}
			for field, value := range map[string][]byte{".dockerconfigjson": access.DockerConfig, "ca.crt": access.CA} {
				if len(value) > 0 {
					data[field] = string(value)
				}
			}
			manifest, err := yaml.Marshal(map[string]any{
				"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
				"metadata":   map[string]any{"name": "skr-agent-bootstrap", "namespace": v1beta2.RuntimeNamespace},
				"stringData": data,
			})
			if err != nil {
				return err
			}
			_, err = cli.Raw(cmd.OutOrStdout()).Write(manifest)
			return err
		},
	}
	keysFlag(cmd.Flags(), &dir)
	cmd.Flags().StringVar(&location, "location", "", "registry prefix that the runtime pulls from, HOST/PATH")
	cmd.Flags().
		StringVar(&owner, "kyma", "", "[NAMESPACE/]NAME of the Kyma that the token counts for; default: "+defaultNamespace+"/RUNTIME-ID")
	cmd.Flags().StringVar(&uid, "kyma-uid", "", "UID of that Kyma; the token then counts for this object alone")
	cmd.Flags().
		BoolVar(&replace, "replace", false, "replace the runtime's former control plane: its agent drops the root of trust that it remembers")
	cmd.Flags().DurationVar(&validity, "token-validity", 24*time.Hour, "validity of the token that the agent enrolls with")
	registry.AddConfigFlag(cmd.Flags(), "docker config.json with the agent's own credentials, never the publisher's")
	cmd.Flags().
		BoolVar(&password, "registry-password", false, "include the agent's password for the registry's token service, derived from the key folder")
	cmd.Flags().
		IntVar(&generation, "registry-password-generation", 1, "generation of that password; a higher one in the service's --generations revokes earlier ones")
	cmd.Flags().
		StringVar(&notifications, "notifications-url", "", "https://HOST"+bundle.NotificationsPath+" of the publisher's notifications; adds the agent's password for HOST, derived from the key folder")
	registry.AddCAFlag(cmd.Flags())
	return cmd
}
