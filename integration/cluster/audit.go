package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Request is one request to the API server from its audit log.
type Request struct {
	// User sent the request. As is the user that User impersonated, or empty.
	User, As string
	// Verb, Group, Resource, Namespace and Name have the same form as in RBAC rules. Resource includes the subresource,
	// such as pods/log.
	Verb, Group, Resource, Namespace, Name string
	// Allowed is false if authorization denied the request.
	Allowed bool
}

const auditLog = "audit.log"

// audit makes the API server log every request of the given users.
func audit(api *envtest.APIServer, dir string, users []string) error {
	policy, err := json.Marshal(map[string]any{
		"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": []string{"RequestReceived"},
		"rules": []any{map[string]any{"level": "Metadata", "users": users}},
	})
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "audit-policy.json")
	api.Configure().Set("audit-policy-file", path).Set("audit-log-path", filepath.Join(dir, auditLog))
	return os.WriteFile(path, policy, 0o600)
}

// Requests returns the distinct requests of the users in Options.Audit.
func (c *Cluster) Requests() ([]Request, error) {
	all, err := c.AllRequests()
	seen := map[Request]bool{}
	distinct := all[:0]
	for _, r := range all {
		if !seen[r] {
			distinct, seen[r] = append(distinct, r), true
		}
	}
	return distinct, err
}

// AllRequests returns every request of the users in Options.Audit. It counts a watch once, although the audit log
// contains two entries for a watch: its start and its end.
func (c *Cluster) AllRequests() ([]Request, error) {
	data, err := os.ReadFile(filepath.Join(c.place.Dir, auditLog))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the API server creates the audit log with the first request
	}
	if err != nil {
		return nil, err
	}
	var found []Request
	seen := map[string]bool{}
	for line := range bytes.Lines(data[c.place.Audited:]) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // the API server is still writing the line
		}
		var event struct {
			AuditID          string
			Verb             string
			User             struct{ Username string }
			ImpersonatedUser struct{ Username string }
			ObjectRef        struct{ APIGroup, Resource, Subresource, Namespace, Name string }
			ResponseStatus   struct{ Code int }
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		if seen[event.AuditID] {
			continue
		}
		seen[event.AuditID] = true
		on := event.ObjectRef
		r := Request{
			User: event.User.Username, As: event.ImpersonatedUser.Username,
			Verb: event.Verb, Group: on.APIGroup, Resource: on.Resource, Namespace: on.Namespace, Name: on.Name,
			Allowed: event.ResponseStatus.Code != 403,
		}
		if on.Subresource != "" {
			r.Resource += "/" + on.Subresource
		}
		if on.Resource != "" {
			found = append(found, r)
		}
	}
	return found, nil
}
