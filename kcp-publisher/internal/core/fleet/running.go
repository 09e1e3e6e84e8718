package fleet

import (
	"strconv"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// maxRunning limits the length of status.runtime.running in bytes, because the API server returns this field as a
// column in lists of Kymas. About 45 modules fit.
const maxRunning = 1 << 10

// RunningModules returns the modules of a healthy runtime in the format of status.runtime.running. It returns "" if the
// runtime is unhealthy or the text would be longer than maxRunning.
func RunningModules(kyma *v1beta2.Kyma) string {
	if kyma.Status.Runtime == nil || kyma.Status.Runtime.Published == nil {
		return ""
	}
	published := kyma.Status.Runtime.Published
	var all strings.Builder
	all.WriteString(strconv.FormatInt(published.Sequence, 10))
	separator := ":"
	k := kymaState{kyma: kyma, status: kyma.Status.Modules}
	for _, m := range k.runtimeModules() {
		if m.Name == "" || !isPlain(m.Name+m.Version) || strings.ContainsAny(m.Name+m.Version, ",=") {
			return ""
		}
		all.WriteString(separator + m.Name + "=" + m.Version)
		separator = ","
		switch {
		case m.State == v1beta2.StateUnmanaged:
			all.WriteString("=" + string(m.State))
		case m.State != v1beta2.StateReady || m.Version != published.Versions[m.Name]:
			return ""
		}
		if all.Len() > maxRunning {
			return ""
		}
	}
	return all.String()
}

func readRunning(text string) (sequence string, modules []RuntimeModule, ok bool) {
	sequence, list, some := strings.Cut(text, ":")
	if !some {
		return sequence, nil, sequence != ""
	}
	modules = make([]RuntimeModule, 0, strings.Count(list, ",")+1)
	for one := range strings.SplitSeq(list, ",") {
		name, version, has := strings.Cut(one, "=")
		version, state, named := strings.Cut(version, "=")
		m := RuntimeModule{Name: cleanLine(name), Version: cleanLine(version), State: v1beta2.StateReady}
		if named {
			m.State = v1beta2.State(state)
		}
		if name == "" || !has || m.State != v1beta2.StateReady && m.State != v1beta2.StateUnmanaged {
			return "", nil, false
		}
		modules = append(modules, m)
	}
	return sequence, modules, true
}
