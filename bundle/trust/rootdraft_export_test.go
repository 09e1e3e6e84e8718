package trust

// Fields are the fields of root.json that TUF does not know.
func (d *RootDraft) Fields() map[string]any { return d.metadata.Signed.UnrecognizedFields }
