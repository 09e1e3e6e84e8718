package fleet

// Health summarizes the state of a runtime in one word.
type Health string

// These are the health values of a runtime, worst first.
const (
	// Failing runtimes have a problem that does not resolve by itself.
	Failing Health = "Failing"
	// Silent runtimes have reported before, but not within the allowed time.
	Silent Health = "Silent"
	// NeverReported runtimes have never sent a valid report. Usually, no agent is enrolled yet.
	NeverReported Health = "NeverReported"
	// Suspended runtimes get no new bundles, because an operator suspended them.
	Suspended Health = "Suspended"
	// Deleting runtimes belong to deleted Kymas and are removing their modules.
	Deleting Health = "Deleting"
	// Behind runtimes have not applied the latest bundle yet, or their modules are not ready yet.
	Behind Health = "Behind"
	// Healthy runtimes have applied the latest bundle, and all their modules are ready.
	Healthy Health = "Healthy"
)

// Healths returns all values of Health, worst first.
func Healths() []Health {
	return []Health{Failing, Silent, NeverReported, Suspended, Deleting, Behind, Healthy}
}

// NeedsAttention reports whether an operator must act on a runtime with this health.
func (h Health) NeedsAttention() bool { return h == Failing || h == Silent || h == NeverReported }
