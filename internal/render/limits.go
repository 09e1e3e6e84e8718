package render

// limits is the first JSON value in the child's input.
type limits struct {
	MemoryBytes int64
	CPUSeconds  uint64
}
