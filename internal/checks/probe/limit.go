package probe

import (
	"fmt"
	"io"
	"net/http"
)

// limited limits the bodies of responses. A larger body is an error, never a shortened response.
type limited struct {
	next http.RoundTripper
	most int64
}

func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = &limitedBody{response.Body, l.most, l.most}
	return response, nil
}

type limitedBody struct {
	io.ReadCloser
	left, most int64
}

func (b *limitedBody) Read(into []byte) (int, error) {
	if b.left < 0 {
		return 0, fmt.Errorf("the response has more than %d bytes", b.most)
	}
	if int64(len(into)) > b.left+1 {
		into = into[:b.left+1]
	}
	n, err := b.ReadCloser.Read(into)
	if b.left -= int64(n); b.left < 0 {
		return n, fmt.Errorf("the response has more than %d bytes", b.most)
	}
	return n, err
}
