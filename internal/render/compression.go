package render

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

const gzipHeader = "\x1f\x8b"

// compressedFormats maps unsupported formats' first bytes to their names.
//
// Source: RFC 8878 (zstd), the XZ file format, APPNOTE of PKWARE (zip), the formats of bzip2, 7-Zip and LZ4.
var compressedFormats = map[string]string{
	"\x28\xb5\x2f\xfd": "zstd", "\xfd7zXZ\x00": "xz", "PK\x03\x04": "zip", "7z\xbc\xaf\x27\x1c": "7z",
	"\x04\x22\x4d\x18": "lz4", "BZh91AY&SY": "bzip2", gzipHeader: "gzip",
}

// checkFormat returns an error for data in a compressed format.
func checkFormat(data []byte) error {
	for header, name := range compressedFormats {
		if bytes.HasPrefix(data, []byte(header)) {
			return fmt.Errorf("the data has the format %s, which is not supported here: unpack it, and pack it with tar and "+
				"gzip, or not at all", name)
		}
	}
	return nil
}

// decompress returns the decompressed data, which must be at most maxBytes. It does not change uncompressed data.
func decompress(data []byte, maxBytes int) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte(gzipHeader)) {
		return data, checkFormat(data)
	}
	plain, err := gunzip(data, maxBytes)
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	return plain, checkFormat(plain)
}

// gunzip unpacks the data twice: first only to check the size, then to store the result. It thus refuses a zip bomb
// without storing it.
func gunzip(data []byte, maxBytes int) ([]byte, error) {
	size, err := gunzipTo(io.Discard, data, maxBytes)
	if err != nil {
		return nil, err
	}
	plain := bytes.NewBuffer(make([]byte, 0, size))
	_, err = gunzipTo(plain, data, maxBytes)
	return plain.Bytes(), err
}

// gunzipTo unpacks all gzip members in the data and returns the unpacked size. Like gzip and tar, it ignores zero bytes
// after the last member, which tape tools add.
func gunzipTo(to io.Writer, data []byte, maxBytes int) (size int64, err error) {
	limit := int64(min(maxBytes, max(freeBytes, maxRatio*len(data))))
	source := bytes.NewReader(data)
	reader, err := gzip.NewReader(source)
	for ; err == nil; err = reader.Reset(source) {
		reader.Multistream(false)
		unpacked, err := io.Copy(to, io.LimitReader(reader, limit-size+1))
		if err != nil {
			return 0, err
		}
		if size += unpacked; size > limit {
			return 0, fmt.Errorf("%d bytes unpack to more than %d", len(data), limit)
		}
		if rest := data[len(data)-source.Len():]; len(bytes.TrimLeft(rest, "\x00")) == 0 {
			return size, nil
		}
	}
	return 0, err
}
