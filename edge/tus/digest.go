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

// algorithms are those of Upload-Checksum, as Tus-Checksum-Algorithm tells them.
const algorithms = "sha1,sha256"

// promise is what Upload-Checksum says of a piece; nil if it says nothing.
type promise struct {
	hash hash.Hash
	want []byte
}

// parseChecksum reads Upload-Checksum: an algorithm, a blank, the base64 of the digest.
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
		return nil, fmt.Errorf("Upload-Checksum: the algorithm %.20q is not supported (supported: %s)", name, algorithms)
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

// digest is the SHA-256 of the first n bytes of an upload. It grows with what comes; what came before a restart is read again at the end.
type digest struct {
	hash hash.Hash
	n    int64
}

// add takes over bytes that were written at an offset, unless it has not seen all before them.
func (d *digest) add(offset int64, b []byte) {
	if d.hash == nil {
		d.hash = sha256.New()
	}
	if offset == d.n {
		d.hash.Write(b)
		d.n += int64(len(b))
	}
}

// forget begins anew: what it saw has been cut off.
func (d *digest) forget() { *d = digest{} }

// finish gives the digest of size bytes and reads from r those that it has not seen.
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
