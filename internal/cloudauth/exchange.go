package cloudauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/internal/bounded"
)

const (
	// requestTimeout limits each request in a login, and loginTimeout limits all requests together.
	requestTimeout = 10 * time.Second
	loginTimeout   = 30 * time.Second
	maxBodyBytes   = 256 << 10
	maxTokenBytes  = 64 << 10
	// maxAnswerBytes limits the part of a response that an error contains.
	maxAnswerBytes = 300
)

var errTooLarge = fmt.Errorf("the response has more than %d bytes", maxBodyBytes)

func limitBody(next http.RoundTripper) http.RoundTripper {
	return bounded.Transport{Next: next, MaxBytes: maxBodyBytes, TooLarge: errTooLarge}
}

// exchange sends a request and returns the response body.
func exchange(client *http.Client, request *http.Request) ([]byte, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	err = errors.Join(err, response.Body.Close())
	if err != nil {
		return nil, fmt.Errorf("read the response from %s: %w", request.URL.Host, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s returned status %d: %s", request.URL.Host, response.StatusCode,
			strings.TrimSpace(string(body[:min(len(body), maxAnswerBytes)])))
	}
	return body, nil
}

// exchangeJSON sends a request and decodes the response body into the value that into points to.
func exchangeJSON(client *http.Client, request *http.Request, into any) error {
	body, err := exchange(client, request)
	if err != nil {
		return err
	}
	if json.Unmarshal(body, into) != nil {
		// The error does not contain the response, because the response can contain a token.
		return fmt.Errorf("the response from %s is not the expected JSON object", request.URL.Host)
	}
	return nil
}

func newForm(ctx context.Context, at string, fields url.Values) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(fields.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return request, nil
}

// readToken reads a file with the workload's token. Kubernetes replaces the file before the token expires.
func readToken(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	token, err := io.ReadAll(io.LimitReader(file, maxTokenBytes))
	if err != nil {
		return "", err
	}
	if len(token) == 0 {
		return "", fmt.Errorf("%s is empty", path)
	}
	return strings.TrimSpace(string(token)), nil
}

// requireEnv returns the values of environment variables. The error lists the variables that are not set.
func requireEnv(names ...string) ([]string, error) {
	var values, missing []string
	for _, name := range names {
		value := os.Getenv(name)
		if values = append(values, value); value == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("the environment variables %s are not set", strings.Join(missing, ", "))
	}
	return values, nil
}
