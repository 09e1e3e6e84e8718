package bundle

import "github.com/kyma-pull/kyma-pull/bundle/strict"

// decodeStrict and checkJSON read untrusted JSON, within the depth limit for bundles. decodeVerified reads
// authenticated JSON whose statement has no unknown critical feature, and ignores fields of later versions.
func decodeStrict(data []byte, v any) error { return strict.JSON(data, v, strict.MaxJSONDepth) }

func checkJSON(data []byte) error { return strict.CheckJSON(data, strict.MaxJSONDepth) }

func decodeVerified(data []byte, v any) error { return strict.Extended(data, v, strict.MaxJSONDepth) }
