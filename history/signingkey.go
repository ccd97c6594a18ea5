package history

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/internal/secretfile"
)

// signingKey signs checkpoints.
type signingKey struct {
	note.Signer
	public string // as verifiers get it
}

// privatePrefix begins the text of a private key.
const privatePrefix = "PRIVATE+KEY+"

// readKey reads a private key. Only its owner may read the file.
func readKey(name string) (*signingKey, error) {
	text, err := secretfile.Read(name)
	if err != nil {
		return nil, err
	}
	bad := func() error { return fmt.Errorf("%s is not a key that signs checkpoints", name) }
	s, err := note.NewSigner(text)
	if err != nil {
		return nil, bad()
	}
	_, encoded, _ := strings.Cut(strings.TrimPrefix(text, privatePrefix+s.Name()+"+"), "+")
	seed, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(seed) != 1+ed25519.SeedSize {
		return nil, bad()
	}
	public, err := note.NewEd25519VerifierKey(s.Name(), ed25519.NewKeyFromSeed(seed[1:]).Public().(ed25519.PublicKey))
	if err != nil {
		return nil, bad()
	}
	return &signingKey{s, public}, nil
}

// makeKey makes a private key in a file that only its owner may read. One that exists is replaced only if asked.
func makeKey(name, installation string, replace bool) (*signingKey, error) {
	private, _, err := note.GenerateKey(rand.Reader, "stagepost-"+installation)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	base := filepath.Base(name)
	f := durable.File{Root: root, Name: base, Temporary: base + "." + rand.Text(), New: !replace}
	err = f.Write(durable.Text([]byte(private + "\n")))
	if errors.Is(err, fs.ErrExist) && !replace { // another server made it
		err = nil
	}
	if err = errors.Join(err, root.Close()); err != nil {
		return nil, err
	}
	return readKey(name)
}

// verifiers are public keys.
type verifiers []note.Verifier

// parseKeys reads public keys.
func parseKeys(texts []string) (all verifiers, err error) {
	for _, text := range texts {
		v, err := note.NewVerifier(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a public key of checkpoints: %w", text, err)
		}
		all = append(all, v)
	}
	return all, nil
}

// Verifier is part of [note.Verifiers].
func (all verifiers) Verifier(name string, hash uint32) (note.Verifier, error) {
	for _, v := range all {
		if v.Name() == name && v.KeyHash() == hash {
			return v, nil
		}
	}
	return nil, &note.UnknownVerifierError{Name: name, KeyHash: hash}
}

// signedBy checks that one of the keys has signed. The error is a [note.UnverifiedNoteError] if others have.
func (r *record) signedBy(keys verifiers) error {
	_, err := note.Open(r.note, keys)
	return err
}

// signers names those who signed.
func (r *record) signers() string {
	var other *note.UnverifiedNoteError
	var all []string
	if _, err := note.Open(r.note, verifiers{}); errors.As(err, &other) {
		for _, s := range other.Note.UnverifiedSigs {
			all = append(all, fmt.Sprintf("%s+%08x", s.Name, s.Hash))
		}
	}
	return strings.Join(all, " and ")
}
