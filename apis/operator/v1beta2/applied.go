package v1beta2

// HasAppliedNewest reports whether the runtime has applied the newest bundle that the publisher pushed for it,
// according to its last recorded report.
func (r *RuntimeStatus) HasAppliedNewest() bool {
	return r != nil && r.Published != nil && r.HasApplied(r.Published.Digest)
}

// HasApplied reports whether the runtime's last recorded report lists the bundle with this digest as applied.
func (r *RuntimeStatus) HasApplied(digest string) bool {
	return r != nil && r.Observed != nil && digest != "" && r.Observed.Digest == digest
}
