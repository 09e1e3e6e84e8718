package trust

// Fields returns the custom fields of the draft.
func (d *RootDraft) Fields() map[string]any { return d.metadata.Signed.UnrecognizedFields }
