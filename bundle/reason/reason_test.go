package reason

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestReasonsHaveAValidForm(t *testing.T) {
	for name, list := range map[string][]Reason{
		"Problems": Problems, "Modules": Modules, "Secrets": Secrets, "Publishing": Publishing, "Sealing": Sealing,
	} {
		for i, r := range list {
			if r == "" || r.Check() != nil || slices.Index(list, r) != i {
				t.Errorf("%s[%d]: got invalid reason %q: %v", name, i, r, r.Check())
			}
		}
		if list[len(list)-1] != Other {
			t.Errorf("%s must end with %s", name, Other)
		}
	}
}

func TestCheckRefusesInvalidReasons(t *testing.T) {
	for _, good := range []Reason{"", "A", "Later2", Reason(strings.Repeat("x", maxBytes))} {
		if err := good.Check(); err != nil {
			t.Errorf("%q: got error %v, want no error", good, err)
		}
	}
	long := Reason(strings.Repeat("x", maxBytes+1))
	for _, bad := range []Reason{"2Later", "is forbidden", "a-b", "Grün", "\x1b[2J", long} {
		if bad.Check() == nil {
			t.Errorf("%q: got no error, want an error", bad)
		}
	}
}

func TestUnknownReasonsBecomeOther(t *testing.T) {
	for reported, want := range map[Reason]Reason{"": "", Forbidden: Forbidden, "Later": Other, ModuleUnknown: Other} {
		if got := Known(reported, Modules); got != want {
			t.Errorf("%q: got %q, want %q", reported, got, want)
		}
	}
}

func TestOutermostErrorReasonWins(t *testing.T) {
	inner := Errorf(TemplateMissing, "ModuleTemplate keda-1.0.0 not found")
	for name, c := range map[string]struct {
		err  error
		want Reason
	}{
		"no error":                    {nil, ""},
		"error without a reason":      {errors.New(string(Forbidden)), Other},
		"wrapped error with a reason": {fmt.Errorf("module keda: %w", inner), TemplateMissing},
		"error with two reasons":      {Errorf(PinUnavailable, "the pin: %w", inner), PinUnavailable},
		"joined errors":               {errors.Join(errors.New("x"), inner), TemplateMissing},
	} {
		if got := Of(c.err); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if With(Forbidden, nil) != nil {
		t.Error("With(nil): got an error, want nil")
	}
	if text := Errorf(Forbidden, "x %d", 1).Error(); text != "x 1" {
		t.Errorf("got text %q, want the text without the reason", text)
	}
}
