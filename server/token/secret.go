package token

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/stagepost/stagepost/server/identity"
)

// Prefix begins every token.
const Prefix = "stp_"

const (
	randomBytes = 32
	textLength  = 48 // of the base64 of 36 bytes
)

// Errors about the form of a token.
var (
	ErrMalformed = errors.New("that is no token: a token is stp_ and 48 letters, digits, - and _")
	ErrTypo      = errors.New("the checksum of the token is wrong: it has been mistyped or cut")
)

// Secret is a token. It prints as three stars, whatever prints it, and inside of another struct's hidden fields as an
// address; [Secret.Reveal] gives the text.
type Secret struct{ text *string }

// New makes a token of random bytes, which must be of a cryptographic source.
func New(random io.Reader) (Secret, error) {
	raw := make([]byte, randomBytes, randomBytes+4)
	if _, err := io.ReadFull(random, raw); err != nil {
		return Secret{}, fmt.Errorf("token: %w", err)
	}
	raw = binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(raw))
	text := Prefix + base64.RawURLEncoding.EncodeToString(raw)
	return Secret{&text}, nil
}

// Parse reads a token. The error, ErrMalformed or ErrTypo, never quotes the text.
func Parse(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, Prefix)
	if !ok || len(encoded) != textLength || strings.ContainsAny(encoded, "\r\n") {
		return Secret{}, ErrMalformed
	}
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return Secret{}, ErrMalformed
	}
	if binary.BigEndian.Uint32(raw[randomBytes:]) != crc32.ChecksumIEEE(raw[:randomBytes]) {
		return Secret{}, ErrTypo
	}
	return Secret{&text}, nil
}

// Reveal returns the text of the token.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Hash returns what the file keeps of the token.
func (s Secret) Hash() identity.Key { return sha256.Sum256([]byte(s.Reveal())) }

// String hides the token.
func (Secret) String() string { return "***" }

// GoString hides the token.
func (Secret) GoString() string { return "***" }

// Format hides the token from every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "***") }

// MarshalText hides the token.
func (Secret) MarshalText() ([]byte, error) { return []byte("***"), nil }
