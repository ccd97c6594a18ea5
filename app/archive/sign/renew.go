package sign

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/format/rfc3161"
)

// Expiring lists the newest tokens that are to be renewed now, the first to expire first.
func (s *Signer) Expiring(ctx context.Context, limit int) ([]catalog.Token, error) {
	return s.o.Catalog.Expiring(ctx, s.o.Now().Add(s.o.RenewBefore), limit)
}

// Renew gives a new time stamp of a document and of its earlier time stamps, if the certificates of the newest one
// expire within Options.RenewBefore; else it gives the newest one, with renewed false. All earlier time stamps are
// verified before. It may be repeated at any point.
func (s *Signer) Renew(ctx context.Context, d Document) (r Result, renewed bool, err error) {
	newest, err := s.o.Catalog.Token(ctx, d.subject(), 0)
	if err != nil {
		return Result{}, false, err
	}
	earlier, digests, err := s.bring(ctx, d, newest.Generation)
	if err != nil {
		return Result{}, false, err
	}
	report, err := verify(d.Dir.FS(), d.Path, digests, s.trusted, newest.Time, newest.Generation)
	if errors.Is(err, ErrExpired) { // the new one proves that the document existed at its own time
		s.o.Log.Error("time stamp was not renewed in time", "subject", d.subject(), "error", err)
	} else if err != nil {
		return Result{}, false, fmt.Errorf("an earlier time stamp is not renewed: %w", err)
	}
	if report.Expires.Sub(s.o.Now()) > s.o.RenewBefore {
		r, err := s.newest(ctx, d, newest)
		return r, false, err
	}
	list, err := s.list(d, newest.Generation+1, earlier, digests)
	if err != nil {
		return Result{}, false, err
	}
	r, err = s.sign(ctx, d, newest.Generation+1, list, newest.Expires)
	return r, err == nil, err
}

// bring writes the files of all time stamps up to a generation into the directory, and gives them.
func (s *Signer) bring(ctx context.Context, d Document, last int) (all []content, _ *digester, err error) {
	digests := &digester{open: d.Open}
	for g := 1; g <= last; g++ {
		t, err := s.o.Catalog.Token(ctx, d.subject(), g)
		if err != nil {
			return nil, nil, err
		}
		token, err := rfc3161.TokenOf(t.Reply)
		if err != nil {
			return nil, nil, err
		}
		names := namesOf(d.Path, g)
		if g > 1 {
			text, err := listOf(d, all, digests)
			if err != nil {
				return nil, nil, err
			}
			all = append(all, content{names.list, text})
		}
		all = append(all, names.of(t.Query, t.Reply, token, []byte(t.Chain))...)
	}
	return all, digests, s.write(d.Dir, all)
}

// list writes the list of a renewal, and gives the function that opens it.
func (s *Signer) list(
	d Document, generation int, earlier []content, digests *digester,
) (func() (io.ReadCloser, error), error) {
	text, err := listOf(d, earlier, digests)
	if err != nil {
		return nil, err
	}
	if err := s.write(d.Dir, []content{{namesOf(d.Path, generation).list, text}}); err != nil {
		return nil, err
	}
	return opening(text), nil
}

func opening(text []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
}

// listOf lists the SHA-512 of a document and of the files of its earlier time stamps, in the form of sha512sum. The
// names are relative to the directory of the document.
func listOf(d Document, earlier []content, digests *digester) ([]byte, error) {
	sum, err := digests.of(crypto.SHA512)
	if err != nil {
		return nil, err
	}
	out := fmt.Appendf(nil, "%x  %s\n", sum, path.Base(d.Path))
	for _, f := range earlier {
		sum := sha512.Sum512(f.text)
		out = fmt.Appendf(out, "%s  %s\n", hex.EncodeToString(sum[:]), path.Base(f.name))
	}
	return out, nil
}

// newest gives the newest token, whose files are in the directory.
func (s *Signer) newest(ctx context.Context, d Document, t catalog.Token) (Result, error) {
	open := d.Open
	if t.Generation > 1 {
		name := namesOf(d.Path, t.Generation).list
		open = func() (io.ReadCloser, error) { return d.Dir.Open(name) }
	}
	return s.sign(ctx, d, t.Generation, open, time.Time{})
}

// Errors of [Verify] besides those of package rfc3161.
var (
	ErrNone    = errors.New("there is no time stamp")
	ErrExpired = errors.New("the certificates have expired, and the time stamp was not renewed before")
	ErrList    = errors.New("the list of a renewal does not fit the files")
)

// Stamp is a time stamp that was verified.
type Stamp struct {
	Generation int
	Time       time.Time
	Accuracy   time.Duration
	Authority  string // subject of the certificate of the signer
	Serial     string
	Policy     string
	Algorithm  string
	Expires    time.Time
}

// Verification is what [Verify] found.
type Verification struct {
	Stamps  []Stamp   // the first one proves since when the document exists
	Expires time.Time // of the newest one
}
