package permission

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// refusalPrefix starts the admission policy's rejection message for a probe. The policy's revision follows it.
const refusalPrefix = "the permissions of Kyma settings are enforced, revision "

var refusalRevision = regexp.MustCompile(regexp.QuoteMeta(refusalPrefix) + `(\d+)`)

// Probe returns a merge patch for a Kyma that the admission policy rejects for every user, so a dry run of the patch
// shows whether the policy is installed.
func Probe() []byte {
	return fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, v1beta2.AnnotationPermissionProbe, Revision)
}

// IsEnforced reports whether the current admission policy is installed. err is the result of a dry run with the patch
// from Probe. If the dry run failed for a reason other than the policy, the policy may still be installed.
func IsEnforced(err error) bool {
	revision, isInstalled := installedRevision(err)
	return isInstalled && revision >= Revision
}

// IsOutdated reports whether an older revision of the admission policy is installed. err is the result of a dry run
// with the patch from Probe.
func IsOutdated(err error) bool {
	revision, isInstalled := installedRevision(err)
	return isInstalled && revision < Revision
}

// installedRevision returns the revision of the admission policy that rejected a probe. It returns false if err is not
// a rejection by this policy. If the revision in the message is not a number, it returns 0 and true.
func installedRevision(err error) (revision int, isInstalled bool) {
	if err == nil {
		return 0, false
	}
	found := refusalRevision.FindStringSubmatch(err.Error())
	if found == nil {
		return 0, false
	}
	revision, err = strconv.Atoi(found[1])
	if err != nil {
		return 0, true
	}
	return revision, true
}
