package bundle

import "github.com/kyma-pull/kyma-pull/bundle/strict"

// decodeStrict and checkJSON read what comes from outside, within the depth that a bundle allows. decodeVerified is for
// what is authenticated, and whose statement names no critical feature that is not known here: what else a later
// version added is skipped.
func decodeStrict(data []byte, v any) error { return strict.JSON(data, v, strict.MaxJSONDepth) }

func checkJSON(data []byte) error { return strict.CheckJSON(data, strict.MaxJSONDepth) }

func decodeVerified(data []byte, v any) error { return strict.Extended(data, v, strict.MaxJSONDepth) }
