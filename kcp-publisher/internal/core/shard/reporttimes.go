package shard

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// ReportTimes are the times of the last reports of a shard's runtimes. Statuses record them once a day, but rollouts
// need them to the minute.
type ReportTimes struct {
	// At is the time when they were collected. Began is the time when their publisher first polled for reports.
	At    time.Time `json:"at"`
	Began time.Time `json:"began"`
	// Kymas are the Kymas with an accepted report, by name.
	Kymas map[string]ReportTime `json:"kymas"`
}

// ReportTime is the last accepted report of one runtime: its creation and arrival in Unix seconds, and the start of its
// content's digest.
type ReportTime struct {
	Made    int64  `json:"m"`
	Arrived int64  `json:"a"`
	Content string `json:"c"`
}

// contentDigits are enough to distinguish a runtime's report from its previous one.
const contentDigits = 12

// NewReportTime returns the record of a report whose content has a digest such as sha256:0a1b….
func NewReportTime(made, arrived time.Time, content string) ReportTime {
	return ReportTime{made.Unix(), arrived.Unix(), shortened(content)}
}

// Says reports whether the report's content has this digest.
func (h ReportTime) Says(content string) bool {
	return h.Content != "" && h.Content == shortened(content)
}

func shortened(digest string) string {
	const algorithm = len("sha256:")
	if len(digest) < algorithm+contentDigits {
		return ""
	}
	return digest[algorithm : algorithm+contentDigits]
}

// maxEncodedBytes fits a ConfigMap with its other fields. maxDecodedBytes limits the unpacked size.
const maxEncodedBytes, maxDecodedBytes = 1_000_000, 32 << 20

// Encode returns the times in the format of DecodeReportTimes.
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
		return h, fmt.Errorf("read hearings: %d bytes, want at most %d", len(data), maxEncodedBytes)
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return h, fmt.Errorf("read hearings: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(reader, maxDecodedBytes+1))
	if err != nil {
		return h, fmt.Errorf("read hearings: %w", err)
	}
	if len(text) > maxDecodedBytes {
		return h, fmt.Errorf("read hearings: want at most %d bytes", maxDecodedBytes)
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return h, fmt.Errorf("read hearings: %w", err)
	}
	return h, nil
}
