package store

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"

	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

func TestOnlyAWholeRegistryIsUnavailable(t *testing.T) {
	answer := func(status int) error { return fmt.Errorf("push: %w", &errcode.ErrorResponse{StatusCode: status}) }
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"it cannot be reached": {
			fmt.Errorf("fetch: %w", &net.OpError{Op: "dial", Err: errors.New("connection refused")}), true,
		},
		"it is broken":                    {answer(http.StatusBadGateway), true},
		"it is overloaded":                {answer(http.StatusTooManyRequests), true},
		"it denies one request":           {answer(http.StatusForbidden), false},
		"it does not know what was asked": {answer(http.StatusNotFound), false},
		"its content was refused": {
			refusal.New(refusal.WrongDigest, "read: %w", &net.OpError{Op: "read", Err: errors.New("reset")}), false,
		},
		"something else is wrong": {errors.New("no such field"), false},
		"nothing is wrong":        {nil, false},
	} {
		if got := Unavailable(c.err); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestSameResponseIsTheSameError(t *testing.T) {
	one := fmt.Errorf("GET /v2/a?at=12:00: %w", &errcode.ErrorResponse{StatusCode: http.StatusForbidden})
	other := fmt.Errorf("GET /v2/a?at=12:01: %w", &errcode.ErrorResponse{StatusCode: http.StatusForbidden})
	if WithoutDetail(one).Error() != WithoutDetail(other).Error() {
		t.Errorf("got %v and %v", WithoutDetail(one), WithoutDetail(other))
	}
	if own := errors.New("own"); !errors.Is(WithoutDetail(own), own) {
		t.Error("an error of our own lost its detail")
	}
}
