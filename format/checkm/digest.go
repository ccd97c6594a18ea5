package checkm

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/adler32"
	"hash/crc32"
	"strings"
)

// Algorithm is a digest algorithm in its normal form: lower case, without hyphen.
type Algorithm string

// The algorithms that a manifest may name.
const (
	Adler32 Algorithm = "adler32"
	CRC32   Algorithm = "crc32"
	MD2     Algorithm = "md2" // may be named, but NewHash does not compute it
	MD5     Algorithm = "md5"
	SHA1    Algorithm = "sha1"
	SHA256  Algorithm = "sha256"
	SHA384  Algorithm = "sha384"
	SHA512  Algorithm = "sha512"
)

// Digest is the digest that a manifest states for a file. The zero Digest states none.
type Digest struct {
	Algorithm Algorithm
	Value     string // hexadecimal, in the case of the manifest
}

// algorithm is an algorithm with its implementation.
type algorithm struct {
	name Algorithm
	size int // bytes
	make func() hash.Hash
}

// algorithms lists the common ones first.
var algorithms = [...]algorithm{
	{MD5, md5.Size, md5.New},
	{SHA256, sha256.Size, sha256.New},
	{SHA1, sha1.Size, sha1.New},
	{SHA512, sha512.Size, sha512.New},
	{SHA384, sha512.Size384, sha512.New384},
	{CRC32, crc32.Size, func() hash.Hash { return crc32.NewIEEE() }},
	{Adler32, adler32.Size, func() hash.Hash { return adler32.New() }},
	{MD2, 16, nil},
}

const algorithmList = "adler32, crc32, md2, md5, sha1, sha256, sha384, sha512"

func lookupAlgorithm(name string) (algorithm, bool) {
	for _, a := range algorithms {
		if string(a.name) == name {
			return a, true
		}
	}
	return algorithm{}, false
}

// ParseAlgorithm parses the name of an algorithm. Case does not matter, and a hyphen may separate the letters from
// the number ("SHA-256").
func ParseAlgorithm(s string) (Algorithm, error) {
	if a, ok := lookupAlgorithm(s); ok {
		return a.name, nil
	}
	low := strings.ToLower(s)
	if i := strings.IndexByte(low, '-'); i > 0 && i+1 < len(low) && isDigit(low[i+1]) && !isDigit(low[i-1]) {
		low = low[:i] + low[i+1:]
	}
	if a, ok := lookupAlgorithm(low); ok {
		return a.name, nil
	}
	return "", fmt.Errorf("unknown digest algorithm %s (known: %s)", quote(s), algorithmList)
}

// HexLen returns the number of hexadecimal digits of a digest, 0 for an unknown algorithm.
func (a Algorithm) HexLen() int {
	entry, _ := lookupAlgorithm(string(a))
	return 2 * entry.size
}

// NewHash returns the hash of an algorithm, in any spelling that ParseAlgorithm accepts. For md2 the error is
// errors.ErrUnsupported: manifests may name it, but this package does not compute it.
func NewHash(a Algorithm) (hash.Hash, error) {
	parsed, err := ParseAlgorithm(string(a))
	if err != nil {
		return nil, err
	}
	entry, _ := lookupAlgorithm(string(parsed))
	if entry.make == nil {
		return nil, fmt.Errorf("computing %s digests: %w", parsed, errors.ErrUnsupported)
	}
	return entry.make(), nil
}

// IsZero reports whether no digest was given.
func (d Digest) IsZero() bool { return d == Digest{} }

// Matches reports whether sum, the result of hashing with d.Algorithm, is the digest. Case is ignored.
func (d Digest) Matches(sum []byte) bool {
	return len(sum) > 0 && strings.EqualFold(hex.EncodeToString(sum), d.Value)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isHex reports whether s consists of lower-case hexadecimal digits.
func isHex(s string) bool {
	for i := 0; i < len(s); i++ {
		if !isDigit(s[i]) && (s[i] < 'a' || s[i] > 'f') {
			return false
		}
	}
	return s != ""
}
