package command

import (
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
	var password bool
	var generation int
	cmd := &cobra.Command{
		Use: "enroll RUNTIME-ID", Short: "print the bootstrap Secret for a runtime's agent", Args: cli.Exactly(1, "one runtime id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := trust.CheckRuntimeID(args[0]); err != nil {
				return cli.Usage(err)
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
			token, err := secret.Issue(args[0], time.Now().Add(validity))
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
			data := map[string]string{"root.json": string(root.Raw), "location": location, "runtime": args[0], "token": token.String()}
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
	cmd.Flags().DurationVar(&validity, "token-validity", 24*time.Hour, "validity of the token that the agent enrolls with")
	registry.AddConfigFlag(cmd.Flags(), "docker config.json with the agent's own credentials, never the publisher's")
	cmd.Flags().BoolVar(&password, "registry-password", false, "include the agent's password for the registry's token service, derived from the key folder")
	cmd.Flags().IntVar(&generation, "registry-password-generation", 1, "generation of that password; a higher one in the service's --generations revokes earlier ones")
	cmd.Flags().StringVar(&notifications, "notifications-url", "", "https://HOST"+bundle.NotificationsPath+" of the publisher's notifications; adds the agent's password for HOST, derived from the key folder")
	registry.AddCAFlag(cmd.Flags())
	return cmd
}
