// Package phase contains stubs for the publisher's package takeover/phase. A test builds the publisher with them.
package phase

import (
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

type Inherited struct {
	Module, Channel, Version string
	Unmanaged                bool
	Objects                  []bundle.ObjectRef
}

func (Inherited) NotOffered(err error) error { return err }
func (Inherited) Follows(string) string      { return "" }

type Asked struct {
	Phase     bundle.TakeoverPhase
	Inherited []Inherited
	Unheard   bool
}

func Ask(*v1beta2.Kyma) (Asked, error)                         { return Asked{}, nil }
func Finished(*v1beta2.Kyma) bool                              { return false }
func RecordReport(*v1beta2.RuntimeStatus, bundle.Report)       {}
func Forget(*v1beta2.KymaStatus)                               {}
func Released(bundle.DesiredState) bool                        { return false }
func Returned(bundle.TakeoverPhase, *bundle.DesiredState) bool { return false }
func Floors(_ bundle.TakeoverPhase, _ *bundle.DesiredState, versions map[string]string) map[string]string {
	return versions
}
