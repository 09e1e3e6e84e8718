package serve

import (
	"bytes"
	"io"
	"log"
	"time"

	"golang.org/x/time/rate"
)

// newErrorLog returns a server's log for errors outside its handlers. It logs at most one failed TLS handshake per
// minute, because clients without credentials can cause any number of them.
func newErrorLog() *log.Logger {
	to := log.Default()
	handshakes := rate.NewLimiter(rate.Every(time.Minute), 1)
	return log.New(limitedLog{to.Writer(), handshakes}, to.Prefix(), to.Flags()|log.Lmsgprefix)
}

type limitedLog struct {
	to         io.Writer
	handshakes *rate.Limiter
}

// Source: net/http, method serve of conn.
var handshakeError = []byte("http: TLS handshake error")

func (l limitedLog) Write(line []byte) (int, error) {
	if bytes.Contains(line, handshakeError) && !l.handshakes.Allow() {
		return len(line), nil
	}
	return l.to.Write(line)
}
