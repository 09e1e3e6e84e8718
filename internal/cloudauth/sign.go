package cloudauth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"
)

// sign adds the Authorization header of AWS Signature Version 4 to a POST request without a query.
//
// Source: AWS IAM User Guide, "Create a signed AWS API request".
func (k awsKeys) sign(request *http.Request, body, region, service string, now time.Time) {
	now = now.UTC()
	request.Header.Set("X-Amz-Date", now.Format("20060102T150405Z"))
	if k.Token != "" {
		request.Header.Set("X-Amz-Security-Token", k.Token)
	}
	names := []string{"host"}
	for name := range request.Header {
		names = append(names, strings.ToLower(name))
	}
	slices.Sort(names)
	var headers strings.Builder
	for _, name := range names {
		value := request.Header.Get(name)
		if name == "host" {
			value = request.URL.Host
		}
		headers.WriteString(name + ":" + strings.TrimSpace(value) + "\n")
	}
	signed := strings.Join(names, ";")
	canonical := strings.Join([]string{
		request.Method, request.URL.EscapedPath(), "", headers.String(), signed, hashOf(body),
	}, "\n")
	scope := strings.Join([]string{now.Format("20060102"), region, service, "aws4_request"}, "/")
	text := strings.Join([]string{
		"AWS4-HMAC-SHA256", now.Format("20060102T150405Z"), scope, hashOf(canonical),
	}, "\n")
	key := []byte("AWS4" + k.Secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+k.ID+"/"+scope+", SignedHeaders="+signed+
		", Signature="+hex.EncodeToString(mac(key, text)))
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}
