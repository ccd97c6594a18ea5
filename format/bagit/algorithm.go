package bagit

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
)

// Names of checksum algorithms, as in the file names of manifests (RFC 8493 section 2.4). New bags use the first two.
const (
	SHA512 = "sha512"
	SHA256 = "sha256"
	SHA384 = "sha384"
	SHA224 = "sha224"
	SHA1   = "sha1"
	MD5    = "md5"
)

var algorithms = map[string]func() hash.Hash{
	SHA512: sha512.New, SHA256: sha256.New, SHA384: sha512.New384, SHA224: sha256.New224, SHA1: sha1.New, MD5: md5.New,
}

// checkDigest returns an error if text is not a checksum of the algorithm.
func checkDigest(algorithm, text string) error {
	make, known := algorithms[algorithm]
	if !known {
		return nil
	}
	if raw, err := hex.DecodeString(text); err != nil || len(raw) != make().Size() {
		return fmt.Errorf("%.140q is not a %s checksum", text, algorithm)
	}
	return nil
}
