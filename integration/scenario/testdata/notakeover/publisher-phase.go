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

func (Inherited) NotOffered(err error) error   { return err }
func (Inherited) UpgradeMessage(string) string { return "" }

type TakeoverInput struct {
	Phase     bundle.TakeoverPhase
	Inherited []Inherited
	Unheard   bool
}

func NewInput(*v1beta2.Kyma) (TakeoverInput, error)               { return TakeoverInput{}, nil }
func IsFinished(*v1beta2.Kyma) bool                               { return false }
func RecordReport(*v1beta2.RuntimeStatus, bundle.Report)          {}
func ClearTakeover(*v1beta2.KymaStatus)                           {}
func IsReleased(bundle.DesiredState) bool                         { return false }
func WasReturned(bundle.TakeoverPhase, *bundle.DesiredState) bool { return false }
func MinimumVersions(_ bundle.TakeoverPhase, _ *bundle.DesiredState, versions map[string]string) map[string]string {
	return versions
}
