package contentstore

import (
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// compress compresses data with zstd. A small window size keeps the agent within its memory request of 128 MiB.
func compress(data []byte) ([]byte, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
		zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return encoder.EncodeAll(data, nil), encoder.Close()
}

// decompress returns exactly size bytes or an error.
func decompress(packed []byte, size int) ([]byte, error) {
	decoder, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(1<<20))
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	defer decoder.Close()
	data := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	if _, err := io.Copy(data, io.LimitReader(decoder, int64(size)+1)); err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	if data.Len() != size {
		return nil, fmt.Errorf("decompress: got at least %d bytes, expected %d", data.Len(), size)
	}
	return data.Bytes(), nil
}

func split(data []byte, size int) [][]byte {
	var chunks [][]byte
	for len(data) > size {
		chunks = append(chunks, data[:size])
		data = data[size:]
	}
	if len(data) > 0 {
		chunks = append(chunks, data)
	}
	return chunks
}
