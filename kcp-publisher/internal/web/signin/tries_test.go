package signin

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

// slowReviews are of an API server that knows no token and takes its time to say so.
type slowReviews struct {
	authenticationclient.TokenReviewInterface
	asked  chan struct{}
	answer chan struct{}
}

func (s *slowReviews) Create(_ context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	s.asked <- struct{}{}
	<-s.answer
	return review, nil
}

func TestTokensThatAreTriedAtOnceAreBounded(t *testing.T) {
	const tried = 200
	api := &slowReviews{asked: make(chan struct{}), answer: make(chan struct{})}
	now := time.Unix(1_000_000, 0)
	s := &Service{Options: Options{Tokens: NewTokens(api, "", time.Minute), TokenForm: true, Now: func() time.Time { return now }}, tries: newTries()}
	results := make(chan error, tried)
	for n := range tried {
		go func() {
			_, err := s.byStrangersToken(t.Context(), fmt.Sprint("wrong-", n))
			results <- err
		}()
	}
	asked := 0
	for range tried {
		select {
		case <-api.asked:
			asked++
		case err := <-results:
			if !errors.Is(err, errTries) {
				t.Fatal(err)
			}
		}
	}
	if asked != triesAtOnce {
		t.Errorf("the API server was asked about %d tokens at once, want %d", asked, triesAtOnce)
	}
	close(api.answer)
	for range asked {
		if err := <-results; !errors.Is(err, errNotAccepted) {
			t.Error(err)
		}
	}
	now = now.Add(time.Second)
	for range triesPerSecond {
		go func() { <-api.asked }()
		if _, err := s.byStrangersToken(t.Context(), "wrong"); !errors.Is(err, errNotAccepted) {
			t.Error("a second later:", err)
		}
	}
	if _, err := s.byStrangersToken(t.Context(), "wrong"); !errors.Is(err, errTries) {
		t.Error("one too many:", err)
	}
}
