package command

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

// advisedCommand matches a command in a line of advice, up to the end of the sentence.
var advisedCommand = regexp.MustCompile("kcp-publisher [a-z][^;,`]*")

func TestAdviceNamesCommandsThatExist(t *testing.T) {
	named := regexp.MustCompile("kcp-publisher ([a-z-]+)( [a-z]+)?")
	for _, d := range fleet.Descriptions() {
		for _, found := range named.FindAllStringSubmatch(d.Advice, -1) {
			args := []string{found[1]}
			if below := strings.TrimSpace(found[2]); below != "" &&
				slices.Contains([]string{"keys", "rollout", "component", "registry", "takeover"}, found[1]) {
				args = append(args, below)
			}
			if o := run(append(args, "--help")...); o.code != 0 ||
				!strings.Contains(o.out, "kcp-publisher "+strings.Join(args, " ")) {
				t.Errorf("advice for %s names %q, which exits with %d: %s%s", d.Situation, found[0], o.code, o.out,
					o.err)
			}
		}
	}
}

// The test's Kyma is named like another runtime's ID, and is not in the default namespace. Advice that used the runtime
// ID or omitted the namespace would select the wrong Kyma.
func TestAdviceContainsTheKymaName(t *testing.T) {
	kyma := v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{
		Namespace: "fleet", Name: "kyma-1", Labels: map[string]string{v1beta2.LabelRuntimeID: "9e3779b1"},
	}}
	other := v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{
		Namespace: "fleet", Name: "other", Labels: map[string]string{v1beta2.LabelRuntimeID: "kyma-1"},
	}}
	names := strings.NewReplacer("RUNTIME", "9e3779b1", "KYMA", "kyma-1", "NAMESPACE", "fleet")
	checked := 0
	for _, d := range fleet.Descriptions() {
		for _, line := range advisedCommand.FindAllString(names.Replace(d.Advice), -1) {
			line, _, _ = strings.Cut(line, " and ")
			cmd, args, err := newProgram("v0.0.0-test").Find(strings.Fields(line)[1:])
			if err != nil {
				t.Errorf("advice for %s: %q: %v", d.Situation, line, err)
				continue
			}
			if err := cmd.ParseFlags(args); err != nil {
				t.Errorf("advice for %s: %q: %v", d.Situation, line, err)
				continue
			}
			checkNamespace(t, cmd, line)
			if takesKyma := []string{"resume", "logs", "why", "revoke", "move"}; !slices.Contains(takesKyma, cmd.Name()) ||
				cmd.Parent().Name() == "rollout" {
				continue
			}
			checked++
			found, err := controlplane.ChooseKyma([]v1beta2.Kyma{other, kyma}, "fleet", cmd.Flags().Args()[0])
			if err != nil || found.Name != "kyma-1" {
				t.Errorf("advice for %s: %q: got %v, want Kyma kyma-1", d.Situation, line, err)
			}
		}
	}
	if checked < 5 {
		t.Errorf("checked %d commands", checked)
	}
}

func checkNamespace(t *testing.T, cmd *cobra.Command, line string) {
	t.Helper()
	if flag := cmd.Flag("namespace"); cmd.Name() != "enroll" && flag != nil && flag.Value.String() != "fleet" {
		t.Errorf("%q has no namespace", line)
	}
	if cmd.Name() == "enroll" && cmd.Flag("kyma").Value.String() != "fleet/kyma-1" {
		t.Errorf("%q is for Kyma %q, want fleet/kyma-1", line, cmd.Flag("kyma").Value)
	}
}
