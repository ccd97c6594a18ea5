package client

import (
	"fmt"
	"io"
)

// Secret is a token of the API. It prints as three stars, whatever prints it. Inside of another struct's hidden
// fields, where no method is asked, it prints as an address.
type Secret struct{ text *string }

// NewSecret makes a secret of a text; the empty text is none.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// String hides the secret.
func (Secret) String() string { return "***" }

// GoString hides the secret.
func (Secret) GoString() string { return "***" }

// Format hides the secret from every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "***") }

// MarshalText hides the secret.
func (Secret) MarshalText() ([]byte, error) { return []byte("***"), nil }
