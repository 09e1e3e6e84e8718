// Package reason defines the reasons why a module, Secret or bundle differs from the request. Programs evaluate only
// the reason. The message next to a reason is for people.
//
// Later versions can add reasons. A program treats a reason that it does not know as Other.
package reason

import (
	"errors"
	"fmt"
	"slices"
)

// Reason is one of the reasons in this package. A reason's name and meaning never change.
type Reason string

// Other is the reason for problems without a specific reason.
const Other Reason = "Other"

const maxBytes = 64

// Check returns an error if a reason from an external source is too long or contains characters other than letters and
// digits.
func (r Reason) Check() error {
	if len(r) > maxBytes {
		return fmt.Errorf("the reason is %d bytes, must be at most %d", len(r), maxBytes)
	}
	for i := range len(r) {
		c := r[i]
		letter := c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return fmt.Errorf("%q: must be a letter followed by letters and digits", string(r))
		}
	}
	return nil
}

// Known returns r if it is empty or in the list, and otherwise Other.
func Known(r Reason, list []Reason) Reason {
	if r == "" || slices.Contains(list, r) {
		return r
	}
	return Other
}

// Error is an error with a reason.
type Error struct {
	Reason Reason
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.Err }

// With returns err with a reason, or nil if err is nil.
func With(r Reason, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Reason: r, Err: err}
}

// Errorf formats an error like fmt.Errorf and adds a reason.
func Errorf(r Reason, format string, args ...any) error { return With(r, fmt.Errorf(format, args...)) }

// Of returns the outermost reason of an error: empty for nil, and Other for an error without a reason.
func Of(err error) Reason {
	var with *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &with):
		return with.Reason
	}
	return Other
}
