package fetch

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"hash/adler32"
	"hash/crc32"
	"strings"
)

// newHash supports the algorithms of checkm and BagIt manifests. Case and hyphens do not matter: SHA-256, sha256,
// Adler-32.
func newHash(algorithm string) (hash.Hash, error) {
	switch strings.ReplaceAll(strings.ToLower(algorithm), "-", "") {
	case "md5":
		return md5.New(), nil
	case "sha1":
		return sha1.New(), nil
	case "sha256":
		return sha256.New(), nil
	case "sha384":
		return sha512.New384(), nil
	case "sha512":
		return sha512.New(), nil
	case "crc32":
		return crc32.NewIEEE(), nil
	case "adler32":
		return adler32.New(), nil
	}
	return nil, fmt.Errorf("digest algorithm %q is not known (can: md5, sha1, sha256, sha384, sha512, crc32, adler32)",
		algorithm)
}

// sums are the running digests of one file: always SHA-256 and SHA-512, and the requested one.
type sums struct {
	sha256, sha512, wanted hash.Hash // wanted is nil if no digest is requested
	digest                 string    // the requested digest in lower case, full length
	size                   int64
}

// newSums fails for an unknown algorithm and for a digest of another form.
func newSums(want Want) (*sums, error) {
	s := &sums{sha256: sha256.New(), sha512: sha512.New()}
	if want.Algorithm == "" && want.Digest == "" {
		return s, nil
	}
	var err error
	if s.wanted, err = newHash(want.Algorithm); err != nil {
		return nil, err
	}
	s.digest = strings.ToLower(want.Digest)
	length := 2 * s.wanted.Size()
	if length == 8 && s.digest != "" && len(s.digest) < length {
		// Checksums of 32 bits are often printed as a number, without leading zeros.
		s.digest = strings.Repeat("0", length-len(s.digest)) + s.digest
	}
	if _, err := hex.DecodeString(s.digest); err != nil || len(s.digest) != length {
		return nil, fmt.Errorf("%q is not a %s digest of %d hexadecimal digits", want.Digest, want.Algorithm, length)
	}
	return s, nil
}

func (s *sums) Write(p []byte) (int, error) {
	s.sha256.Write(p)
	s.sha512.Write(p)
	if s.wanted != nil {
		s.wanted.Write(p)
	}
	s.size += int64(len(p))
	return len(p), nil
}

// matches reports whether the bytes so far have the requested digest; without one it is false.
func (s *sums) matches() bool {
	return s.wanted != nil && hex.EncodeToString(s.wanted.Sum(nil)) == s.digest
}

func (s *sums) got() Got {
	g := Got{Size: s.size, SHA256: hex.EncodeToString(s.sha256.Sum(nil)), SHA512: hex.EncodeToString(s.sha512.Sum(nil))}
	if s.wanted != nil {
		g.Digest = hex.EncodeToString(s.wanted.Sum(nil))
	}
	return g
}
