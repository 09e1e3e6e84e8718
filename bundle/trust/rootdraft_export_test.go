package trust

// Fields returns the custom fields of root.json.
func (d *RootDraft) Fields() map[string]any { return d.metadata.Signed.UnrecognizedFields }
