package main

import (
	"time"
)

type options struct {
	Runtimes      int
	Seen          int
	AgentPoll     time.Duration
	AgentReport   time.Duration
	Idle          time.Duration
	MemoryLimit   int64
	PublisherArgs []string
	Notifications bool
	Only          []string
	Profiles      string
	Out           string
}
