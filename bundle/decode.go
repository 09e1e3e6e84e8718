package bundle

import "github.com/kyma-pull/kyma-pull/bundle/strict"

// decodeStrict and checkJSON read what comes from outside, within the depth that a bundle allows.
func decodeStrict(data []byte, v any) error { return strict.JSON(data, v, strict.MaxJSONDepth) }

func checkJSON(data []byte) error { return strict.CheckJSON(data, strict.MaxJSONDepth) }
