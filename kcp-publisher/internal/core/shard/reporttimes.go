package shard

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// ReportTimes are the times of the last reports of a shard's runtimes. The statuses of Kymas record these times only
// once a day, but rollouts need them within minutes.
type ReportTimes struct {
	// At is the time at which the shard's publisher collected the report times. Began is the time at which it first
	// polled for reports.
	At    time.Time `json:"at"`
	Began time.Time `json:"began"`
	// Kymas are the report times of the Kymas with an accepted report, by name.
	Kymas map[string]ReportTime `json:"kymas"`
}

// ReportTime describes the last accepted report of one runtime: its creation and arrival in Unix seconds, and the first
// digits of the digest of its content.
type ReportTime struct {
	Made    int64  `json:"m"`
	Arrived int64  `json:"a"`
	Content string `json:"c"`
}

// contentDigits is the number of hexadecimal digits in ReportTime.Content. It is enough to distinguish two consecutive
// reports of a runtime.
const contentDigits = 12

// NewReportTime returns the ReportTime of a report. content is the digest of the report's content, such as
// sha256:0a1b….
func NewReportTime(made, arrived time.Time, content string) ReportTime {
	return ReportTime{made.Unix(), arrived.Unix(), shortened(content)}
}

// HasContent reports whether content is the digest of the report's content. It compares only the first contentDigits.
func (h ReportTime) HasContent(content string) bool {
	return h.Content != "" && h.Content == shortened(content)
}

func shortened(digest string) string {
	const algorithm = len("sha256:")
	if len(digest) < algorithm+contentDigits {
		return ""
	}
	return digest[algorithm : algorithm+contentDigits]
}

// maxEncodedBytes limits the size of compressed report times, so they fit into a ConfigMap. maxDecodedBytes limits the
// uncompressed size.
const maxEncodedBytes, maxDecodedBytes = 1_000_000, 32 << 20

// Encode returns the report times as compressed JSON, which DecodeReportTimes parses.
func (h ReportTimes) Encode() ([]byte, error) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if err := json.NewEncoder(writer).Encode(h); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	if packed.Len() > maxEncodedBytes {
		return nil, fmt.Errorf("%d runtimes are too many for one shard: increase --shards", len(h.Kymas))
	}
	return packed.Bytes(), nil
}

// DecodeReportTimes parses the result of Encode.
func DecodeReportTimes(data []byte) (ReportTimes, error) {
	var h ReportTimes
	if len(data) > maxEncodedBytes {
		return h, fmt.Errorf("decode report times: %d bytes, must be at most %d", len(data), maxEncodedBytes)
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return h, fmt.Errorf("decode report times: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(reader, maxDecodedBytes+1))
	if err != nil {
		return h, fmt.Errorf("decode report times: %w", err)
	}
	if len(text) > maxDecodedBytes {
		return h, fmt.Errorf("decode report times: uncompressed size exceeds %d bytes", maxDecodedBytes)
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return h, fmt.Errorf("decode report times: %w", err)
	}
	return h, nil
}
