package tus

import (
	"crypto/sha1" //nolint:gosec // the protocol demands that servers know it
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
)

// algorithms are those of Upload-Checksum, for Tus-Checksum-Algorithm.
const algorithms = "sha1,sha256"

// promise is the Upload-Checksum of a piece; nil without one.
type promise struct {
	hash hash.Hash
	want []byte
}

// parseChecksum parses Upload-Checksum: an algorithm, a blank, the base64 of the digest.
func parseChecksum(header string) (*promise, error) {
	if header == "" {
		return nil, nil
	}
	name, encoded, _ := strings.Cut(header, " ")
	p := &promise{}
	switch name {
	case "sha1":
		p.hash = sha1.New() //nolint:gosec // as above
	case "sha256":
		p.hash = sha256.New()
	default:
		return nil, fmt.Errorf("Upload-Checksum: the algorithm %.20q is not supported (supported: %s)", name,
			algorithms)
	}
	var err error
	if p.want, err = base64.StdEncoding.Strict().DecodeString(encoded); err != nil || len(p.want) != p.hash.Size() {
		return nil, errors.New("Upload-Checksum: the digest must be base64 of as many bytes as its algorithm gives")
	}
	return p, nil
}

func (p *promise) add(b []byte) {
	if p != nil {
		p.hash.Write(b)
	}
}

func (p *promise) kept() bool { return p == nil || string(p.hash.Sum(nil)) == string(p.want) }

// digest is the SHA-256 of the first n bytes of an upload. It is updated with each piece; bytes from before a restart
// are read again at the end.
type digest struct {
	hash hash.Hash
	n    int64
}

// add adds bytes that were written at an offset, if the digest covers all bytes before them.
func (d *digest) add(offset int64, b []byte) {
	if d.hash == nil {
		d.hash = sha256.New()
	}
	if offset == d.n {
		d.hash.Write(b)
		d.n += int64(len(b))
	}
}

// forget restarts: the bytes were truncated.
func (d *digest) forget() { *d = digest{} }

// finish returns the digest of size bytes and reads the missing ones from r.
func (d *digest) finish(r io.ReaderAt, size int64) (string, error) {
	if d.hash == nil || d.n > size {
		*d = digest{hash: sha256.New()}
	}
	n, err := io.Copy(d.hash, io.NewSectionReader(r, d.n, size-d.n))
	d.n += n
	if err == nil && d.n != size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		d.forget()
		return "", err
	}
	return hex.EncodeToString(d.hash.Sum(nil)), nil
}
