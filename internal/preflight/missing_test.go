package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kyma-pull/kyma-pull/charts"
	"github.com/kyma-pull/kyma-pull/hack/lender"
	"github.com/kyma-pull/kyma-pull/hack/suite"
)

// adminRoles contains the RBAC files that grant all permissions with a single rule.
var adminRoles = map[string]bool{"skr-agent/rbac/all-modules.yaml": true}

// The test removes each permission of each role in both charts, one at a time. The check must name the removed
// permission.
func TestEachMissingPermissionIsNamed(t *testing.T) {
	suite.Long(t)
	missing(t, 1)
}

// The short suite tests only every twelfth permission.
func TestMissingPermissionIsNamed(t *testing.T) { missing(t, 12) }

// missing removes every step-th permission.
func missing(t *testing.T, step int) {
	t.Helper()
	server, err := lender.Start(t.Context(), &envtest.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	config := rest.CopyConfig(server.Config)
	config.QPS = -1
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kcp-system", "kcp-secrets", "kcp-signatures", "kyma-system"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := admin.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	number := 0
	for _, files := range []fs.FS{charts.PublisherRBAC, charts.AgentRBAC} {
		paths, err := fs.Glob(files, "*/rbac/*.yaml")
		if err != nil || len(paths) == 0 {
			t.Fatalf("found no files with roles, error %v", err)
		}
		for _, path := range paths {
			permissions, err := Permissions(files, path, nil)
			if err != nil {
				t.Fatal(err)
			}
			// One rule lists all Secrets with content, so the test keeps only two of their names.
			permissions = slices.DeleteFunc(permissions, func(p Permission) bool {
				return strings.HasPrefix(p.Name, "kyma-pull-content-slot-") && !strings.HasSuffix(p.Name, "-000") &&
					!strings.HasSuffix(p.Name, "-127")
			})
			for i, removed := range permissions {
				if number++; number%step != 0 || adminRoles[path] {
					continue
				}
				user := fmt.Sprintf("user-%d", number)
				grantPermissions(t, admin, user, slices.Delete(slices.Clone(permissions), i, i+1))
				part := strings.TrimSuffix(filepath.Base(path), ".yaml")
				untilNamed(t, config, user, part, permissions, removed)
			}
		}
	}
}

// grantPermissions grants permissions to a user, with one ClusterRole and with one Role for each namespace.
func grantPermissions(t *testing.T, admin *kubernetes.Clientset, user string, permissions []Permission) {
	t.Helper()
	rules := map[string][]rbacv1.PolicyRule{} // by namespace; empty for the cluster
	for _, p := range permissions {
		rules[p.Namespace] = append(rules[p.Namespace], ruleOf(p))
	}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	ref := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: user}
	}
	ctx, api, options := t.Context(), admin.RbacV1(), metav1.CreateOptions{}
	for namespace, rules := range rules {
		meta := metav1.ObjectMeta{Name: user, Namespace: namespace}
		var roleErr, bindingErr error
		if namespace == "" {
			_, roleErr = api.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, options)
			_, bindingErr = api.ClusterRoleBindings().Create(ctx,
				&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref("ClusterRole")}, options)
		} else {
			_, roleErr = api.Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, options)
			_, bindingErr = api.RoleBindings(namespace).Create(ctx,
				&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref("Role")}, options)
		}
		if err := errors.Join(roleErr, bindingErr); err != nil {
			t.Fatal(err)
		}
	}
}

func ruleOf(p Permission) rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{Verbs: []string{p.Verb}}
	if p.URL != "" {
		rule.NonResourceURLs = []string{p.URL}
		return rule
	}
	resource := p.Resource
	if p.Subresource != "" {
		resource += "/" + p.Subresource
	}
	rule.APIGroups, rule.Resources = []string{p.Group}, []string{resource}
	if p.Name != "" {
		rule.ResourceNames = []string{p.Name}
	}
	return rule
}

// untilNamed waits until the API server denies the removed permission, and then checks that the finding names it.
func untilNamed(t *testing.T, config *rest.Config, user, part string, all []Permission, removed Permission) {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	cluster, err := Connect(config, "the cluster", NewTimes(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var denied []Permission
	for wait := time.NewTicker(100 * time.Millisecond); ; {
		asked, err := cluster.listDenied(ctx, all)
		if err != nil {
			t.Fatalf("%s without %s: got error %v, last denied permissions: %v", part, removed, err, denied)
		}
		if denied = asked; len(denied) == 1 && denied[0] == removed {
			wait.Stop()
			break
		}
		<-wait.C // the API server applies new roles with a delay
	}
	found := Rights(part, len(all), denied, "")
	if found.Result != Failed || !strings.Contains(found.Message, removed.String()) {
		t.Errorf("%s without %s: got finding %+v, want Failed with the missing permission", part, removed, found)
	}
}
