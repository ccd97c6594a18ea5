package ocfl

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"slices"
	"strings"

	"golang.org/x/crypto/blake2b"
)

// Names of digest algorithms (OCFL 1.1 section 3.4). SHA512 addresses content (SHA256 in objects of other programs);
// the others are for the fixity block only.
const (
	SHA512  = "sha512"
	SHA256  = "sha256"
	SHA1    = "sha1"
	MD5     = "md5"
	Blake2b = "blake2b-512"
)

// extensionDigests are names of the digest algorithm extensions (0001, 0009) that a fixity block may use and that
// this package does not compute. By section 3.4 clients ignore them.
var extensionDigests = []string{"blake2b-160", "blake2b-256", "blake2b-384", "sha512/256", "size", "crc32", "md2"}

// newHash returns nil for an algorithm that this package does not compute.
func newHash(algorithm string) hash.Hash {
	switch algorithm {
	case SHA512:
		return sha512.New()
	case SHA256:
		return sha256.New()
	case SHA1:
		return sha1.New()
	case MD5:
		return md5.New()
	case Blake2b:
		h, err := blake2b.New512(nil)
		if err != nil {
			return nil
		}
		return h
	}
	return nil
}

// validDigest reports whether s has the form of a digest of algorithm: hex of the right length, either case.
func validDigest(algorithm, s string) bool {
	h := newHash(algorithm)
	if h == nil || len(s) != 2*h.Size() {
		return false
	}
	_, err := hex.DecodeString(s)
	return err == nil
}

func knownFixity(algorithm string) bool {
	return newHash(algorithm) != nil || slices.Contains(extensionDigests, algorithm)
}

// sums computes several digests in one pass.
type sums map[string]hash.Hash

func newSums(algorithms ...string) sums {
	s := make(sums, len(algorithms))
	for _, a := range algorithms {
		if h := newHash(a); h != nil {
			s[a] = h
		}
	}
	return s
}

func (s sums) Write(p []byte) (int, error) {
	for _, h := range s {
		h.Write(p)
	}
	return len(p), nil
}

// hex returns lower-case hex.
func (s sums) hex(algorithm string) string { return hex.EncodeToString(s[algorithm].Sum(nil)) }

func digestOf(algorithm string, data []byte) string {
	s := newSums(algorithm)
	s.Write(data)
	return s.hex(algorithm)
}

func sameDigest(a, b string) bool { return strings.EqualFold(a, b) }
