package bundle

import "github.com/kyma-pull/kyma-pull/bundle/strict"

// decodeStrict reads untrusted JSON and refuses unknown fields.
func decodeStrict(data []byte, v any) error { return strict.JSON(data, v, strict.MaxJSONDepth) }

func checkJSON(data []byte) error { return strict.CheckJSON(data, strict.MaxJSONDepth) }

func decodeVerified(data []byte, v any) error {
	return strict.ExtendedJSON(data, v, strict.MaxJSONDepth)
}
