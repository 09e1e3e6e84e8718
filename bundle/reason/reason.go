// Package reason defines the reasons why a module, a Secret or a bundle differs from the request. Programs use these
// values in decisions. The code that finds a problem sets its reason. The accompanying message is for people: it can
// contain any text, including text of a module, and programs never parse it.
//
// A document contains reasons from one list. Readers map an unknown value to Other, so later versions can add values.
package reason

import (
	"errors"
	"fmt"
	"slices"
)

// Reason is one value of a list. Values are a contract: extend the lists, never rename a value or change its meaning.
type Reason string

// Other is the reason of a problem without a specific reason, of a value from a later version, and of a report from an
// agent that does not support reasons.
const Other Reason = "Other"

// maxBytes limits a reason.
const maxBytes = 64

// Check returns an error if an external reason is too long or contains characters other than letters and digits. It
// accepts values that no list contains.
func (r Reason) Check() error {
	if len(r) > maxBytes {
		return fmt.Errorf("the reason has %d bytes, must be at most %d", len(r), maxBytes)
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

// Known returns the reason if it is empty or in the list, and Other for any other value.
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

// Unwrap returns the error without its reason.
func (e *Error) Unwrap() error { return e.Err }

// With adds a reason to an error. It returns nil for nil.
func With(r Reason, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Reason: r, Err: err}
}

// Errorf is fmt.Errorf with a reason.
func Errorf(r Reason, format string, args ...any) error { return With(r, fmt.Errorf(format, args...)) }

// Of returns the outermost reason of an error: empty for nil, Other for an error without one.
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
