// Package reason defines why a module, a Secret or a bundle is not as it was asked for, as values that programs decide
// by. The code that finds a problem sets its reason. The message beside it is for people: it can contain any text, also
// that of a module, and no program reads it.
//
// A document carries reasons of one list. Readers map a value that their list does not contain to Other, so that a
// later version can add one.
package reason

import (
	"errors"
	"fmt"
	"slices"
)

// Reason is one value of a list. Values are a contract: extend the lists, never rename a value or give it another
// meaning.
type Reason string

// Other stands for a problem without a reason of its own, for a value from a later version, and for a report from an
// agent without reasons.
const Other Reason = "Other"

// maxBytes bounds a reason.
const maxBytes = 64

// Check returns an error if a reason from outside is too long or is not made of letters and digits. It accepts values
// that no list contains.
func (r Reason) Check() error {
	if len(r) > maxBytes {
		return fmt.Errorf("%d bytes, at most %d", len(r), maxBytes)
	}
	for i := range len(r) {
		c := r[i]
		letter := c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return fmt.Errorf("%q: want letters and digits after a letter", string(r))
		}
	}
	return nil
}

// Known returns the reason if the list contains it, empty for none, and Other for any other value.
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
