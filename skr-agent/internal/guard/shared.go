package guard

import "slices"

// IsShared reports whether an object is a namespace that must outlive every module, such as the agent's own.
func IsShared(k Key, home string) bool {
	return IsNamespace(k.GroupKind()) && slices.Contains([]string{home, "default", "kube-system", "kube-public", "kube-node-lease"}, k.Name)
}
