package webhook

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

const secretPrefix = "whsec_"

// Lengths of a key in bytes, by the specification.
const (
	MinKey = 24
	MaxKey = 64
)

// Secret is a key that signs. It always prints as three stars.
type Secret struct{ key []byte }

// ParseSecret parses "whsec_" and the base64 of 24 to 64 bytes. The error never quotes the text.
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return Secret{}, errors.New("a webhook secret begins with whsec_")
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return Secret{}, errors.New("a webhook secret is whsec_ and base64 (RFC 4648, section 4) with its padding")
	}
	if len(key) < MinKey || len(key) > MaxKey {
		return Secret{}, fmt.Errorf("a webhook secret has %d to %d bytes, this one has %d", MinKey, MaxKey, len(key))
	}
	return Secret{key}, nil
}

// RawSecret uses the bytes of a text as the key: for receivers with a password instead of a secret.
func RawSecret(text string) Secret { return Secret{[]byte(text)} }

// NewSecret returns the text of a secret of 32 random bytes.
func NewSecret(random io.Reader) (string, error) {
	key := make([]byte, 32)
	if _, err := io.ReadFull(random, key); err != nil {
		return "", fmt.Errorf("webhook secret: %w", err)
	}
	return secretPrefix + base64.StdEncoding.EncodeToString(key), nil
}

// String hides the secret.
func (Secret) String() string { return "***" }

// GoString hides the secret.
func (Secret) GoString() string { return "***" }

// Format hides the secret from every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "***") }

// MarshalText hides the secret.
func (Secret) MarshalText() ([]byte, error) { return []byte("***"), nil }
