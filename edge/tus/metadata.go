package tus

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of Upload-Metadata.
const (
	maxMetadata = 8 << 10 // bytes of the header
	maxPairs    = 64
	maxKey      = 128 // bytes
)

// parseMetadata parses Upload-Metadata: pairs separated by commas, each a key and the base64 of a value separated by
// a blank, or only a key. Keys are printable ASCII and unique; values are text in UTF-8 without NUL, since they are
// used in JSON and in names.
func parseMetadata(header string) (map[string]string, error) {
	all := map[string]string{}
	if header == "" {
		return all, nil
	}
	if len(header) > maxMetadata {
		return nil, fmt.Errorf("Upload-Metadata has more than %d bytes", maxMetadata)
	}
	for pair := range strings.SplitSeq(header, ",") {
		key, encoded, _ := strings.Cut(strings.Trim(pair, " \t"), " ")
		if err := checkKey(key); err != nil {
			return nil, err
		}
		if _, twice := all[key]; twice {
			return nil, fmt.Errorf("Upload-Metadata has %q twice", key)
		}
		if len(all) == maxPairs {
			return nil, fmt.Errorf("Upload-Metadata has more than %d pairs", maxPairs)
		}
		value, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if err != nil || strings.ContainsAny(encoded, "\r\n") {
			return nil, fmt.Errorf("Upload-Metadata: the value of %q is not base64", key)
		}
		if !utf8.Valid(value) || strings.ContainsRune(string(value), 0) {
			return nil, fmt.Errorf("Upload-Metadata: the value of %q is not text", key)
		}
		all[key] = string(value)
	}
	return all, nil
}

func checkKey(key string) error {
	if key == "" {
		return errors.New("Upload-Metadata has an empty key")
	}
	if len(key) > maxKey {
		return fmt.Errorf("Upload-Metadata has a key of more than %d bytes", maxKey)
	}
	for _, c := range []byte(key) {
		if c <= ' ' || c > '~' {
			return fmt.Errorf("Upload-Metadata has the key %q, which is not printable ASCII", key)
		}
	}
	return nil
}
