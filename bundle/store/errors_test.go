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

func TestOnlyRegistryOutagesCountAsUnavailable(t *testing.T) {
	answer := func(status int) error { return fmt.Errorf("push: %w", &errcode.ErrorResponse{StatusCode: status}) }
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"unreachable registry": {
			fmt.Errorf("fetch: %w", &net.OpError{Op: "dial", Err: errors.New("connection refused")}), true,
		},
		"broken registry":     {answer(http.StatusBadGateway), true},
		"overloaded registry": {answer(http.StatusTooManyRequests), true},
		"denied request":      {answer(http.StatusForbidden), false},
		"missing manifest":    {answer(http.StatusNotFound), false},
		"refused content": {
			refusal.New(refusal.WrongDigest, "read: %w", &net.OpError{Op: "read", Err: errors.New("reset")}), false,
		},
		"error that is not from a registry": {errors.New("no such field"), false},
		"no error":                          {nil, false},
	} {
		if got := IsUnavailable(c.err); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}

func TestEqualResponsesHaveTheSameErrorText(t *testing.T) {
	one := fmt.Errorf("GET /v2/a?at=12:00: %w", &errcode.ErrorResponse{StatusCode: http.StatusForbidden})
	other := fmt.Errorf("GET /v2/a?at=12:01: %w", &errcode.ErrorResponse{StatusCode: http.StatusForbidden})
	if WithoutDetail(one).Error() != WithoutDetail(other).Error() {
		t.Errorf("got texts %v and %v, want equal texts", WithoutDetail(one), WithoutDetail(other))
	}
	if own := errors.New("own"); !errors.Is(WithoutDetail(own), own) {
		t.Error("an error that is not from a registry lost its detail")
	}
}
