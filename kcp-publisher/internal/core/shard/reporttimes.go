package shard

import (
	"fmt"
	"time"
)

// ReportTimes contains the time of the last report from each runtime in a shard. The planner needs it for rollouts,
// because the report times in the Kymas' statuses are updated too rarely.
type ReportTimes struct {
	// At is the time at which the report times were collected. Began is the time at which the shard's process started
	// to read reports.
	At    time.Time `json:"at"`
	Began time.Time `json:"began"`
	// Kymas maps the name of each Kyma to the report time of its runtime.
	Kymas map[string]ReportTime `json:"kymas"`
}

// ReportTime contains the creation and arrival times of a runtime's last accepted report, in Unix seconds. Content is
// the start of the digest of the report's content.
type ReportTime struct {
	Made    int64  `json:"m"`
	Arrived int64  `json:"a"`
	Content string `json:"c"`
}

// contentDigits is the number of hexadecimal digits in ReportTime.Content.
const contentDigits = 12

// NewReportTime returns the ReportTime of a report. content is the digest of the report's content, such as
// sha256:0a1b….
func NewReportTime(made, arrived time.Time, content string) ReportTime {
	return ReportTime{made.Unix(), arrived.Unix(), shortenDigest(content)}
}

// HasContent reports whether the report's content has this digest. It compares only the first contentDigits digits.
func (h ReportTime) HasContent(content string) bool {
	return h.Content != "" && h.Content == shortenDigest(content)
}

func shortenDigest(digest string) string {
	const algorithm = len("sha256:")
	if len(digest) < algorithm+contentDigits {
		return ""
	}
	return digest[algorithm : algorithm+contentDigits]
}

// maxEncodedBytes limits the size of the compressed report times, which must fit into a ConfigMap. maxDecodedBytes
// limits their size after decompression.
const maxEncodedBytes, maxDecodedBytes = 1_000_000, 32 << 20

// Encode encodes the report times as gzip-compressed JSON.
func (h ReportTimes) Encode() ([]byte, error) {
	data, err := pack(h)
	if err != nil {
		return nil, err
	}
	if len(data) > maxEncodedBytes {
		return nil, fmt.Errorf("%d runtimes are too many for one shard: increase --shards", len(h.Kymas))
	}
	return data, nil
}

// DecodeReportTimes parses the result of Encode.
func DecodeReportTimes(data []byte) (ReportTimes, error) {
	var h ReportTimes
	if err := unpack(data, &h); err != nil {
		return h, fmt.Errorf("decode report times: %w", err)
	}
	return h, nil
}
