// Package sign obtains time stamps (RFC 3161) for files of archives, keeps them valid, and verifies them.
//
// Beside a file NAME are then, so that public tools verify it without this program:
//
//	NAME.tsq  the request     openssl ts -verify -queryfile NAME.tsq -in NAME.tsr -CAfile root.pem
//	NAME.tsr  the answer      openssl ts -verify -data NAME -in NAME.tsr -CAfile root.pem
//	NAME.tst  its token       openssl ts -verify -data NAME -token_in -in NAME.tst -CAfile root.pem
//	NAME.pem  the certificates, from the signer to the root
//
// A token is trusted as long as its certificates are. Before the first of them expires it is renewed: NAME.2.sha512
// lists the SHA-512 of NAME and of the files above (`sha512sum -c` checks it), and NAME.2.tsq, .tsr, .tst and .pem are
// a time stamp of that list, perhaps of another authority and with a stronger algorithm. Further renewals have the
// numbers 3, 4 and so on, and list all earlier files.
package sign

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/edge/timestamp"
	"github.com/stagepost/stagepost/format/rfc3161"
	"github.com/stagepost/stagepost/internal/durable"
)

// Options of [New]. Catalog and Authorities are required.
type Options struct {
	Catalog     *catalog.Catalog
	Authorities []*timestamp.Authority //  asked in this order until one gives a good token
	Retired     []*x509.Certificate    // roots of authorities that are not asked any more, to verify earlier tokens
	RenewBefore time.Duration          // before the first certificate expires; defaults to 90 days
	Client      *http.Client           // defaults to one without redirects
	Now         func() time.Time       // defaults to time.Now
	Log         *slog.Logger           // defaults to no log
	Agent       string                 // of events; defaults to stagepost
	// Point is called before each step that a crash can separate; an error ends the work. A test uses it; defaults to
	// nothing.
	Point func(name string) error
}

// Signer obtains time stamps. It is safe for concurrent use with different files.
type Signer struct {
	o       Options
	trusted *rfc3161.Verifier            // of stored tokens
	byName  map[string]*rfc3161.Verifier // of the authorities
}

// New makes a signer.
func New(o Options) (*Signer, error) {
	if len(o.Authorities) == 0 {
		return nil, errors.New("no time-stamp authority is configured")
	}
	o.Client = timestamp.Client(o.Client)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Point == nil {
		o.Point = func(string) error { return nil }
	}
	o.Agent, o.RenewBefore = cmp.Or(o.Agent, "stagepost"), cmp.Or(o.RenewBefore, 90*24*time.Hour)
	s := &Signer{
		o: o, trusted: &rfc3161.Verifier{Roots: x509.NewCertPool()}, byName: map[string]*rfc3161.Verifier{},
	}
	for _, a := range o.Authorities {
		if s.byName[a.Name()] != nil {
			return nil, fmt.Errorf("two time-stamp authorities have the name %q", a.Name())
		}
		s.byName[a.Name()] = a.Verifier()
		for _, c := range a.Roots() {
			s.trusted.Roots.AddCert(c)
		}
		s.trusted.Intermediates = append(s.trusted.Intermediates, a.Verifier().Intermediates...)
	}
	for _, c := range o.Retired {
		s.trusted.Roots.AddCert(c)
	}
	return s, nil
}

// Verifier gives the verifier of stored tokens: it trusts the roots of all authorities, retired ones included.
func (s *Signer) Verifier() *rfc3161.Verifier { return s.trusted }

var hashes = timestamp.Hashes

// Document is a file that is stamped.
type Document struct {
	Job  string
	Path string                        // of the artifact; the files of the time stamp lie beside it
	Open func() (io.ReadCloser, error) // gives the content; may be called several times
	Dir  *os.Root                      // into which the files of the time stamp are written, below Path

	Authorities []string // names of those that are asked, in this order; nil: all
}

func (d *Document) subject() string { return path.Join(d.Job, d.Path) }

// Result is a time stamp.
type Result struct {
	Token    catalog.Token
	Files    []string // paths in Document.Dir, to be stored beside the document
	Warnings []string
}

// ErrNoGain is a renewal that would not be valid for longer than the time stamp that it renews.
var ErrNoGain = errors.New("its certificates expire as early as those of the earlier time stamp")

// FailedError is a document for which no authority gave a good token.
type FailedError struct {
	Subject   string
	Errs      []error // of the authorities, in their order
	Transient bool    // a later attempt can succeed
	After     time.Duration
}

// Error names each authority and its cause.
func (e *FailedError) Error() string {
	all := make([]string, len(e.Errs))
	for i, err := range e.Errs {
		all[i] = err.Error()
	}
	return "time stamp of " + e.Subject + ": " + strings.Join(all, "; ")
}

// Unwrap gives the causes.
func (e *FailedError) Unwrap() []error { return e.Errs }

// Temporary reports whether a later attempt can succeed.
func (e *FailedError) Temporary() bool { return e.Transient }

// Sign gives the time stamp of a document, and requests it if there is none. There is one token of each document and
// generation: a repetition after a crash, at whatever point, gives the token that was recorded, or the one whose files
// were written. The error is a [*FailedError] if no authority gave a good token.
func (s *Signer) Sign(ctx context.Context, d Document) (Result, error) {
	return s.sign(ctx, d, 1, d.Open, time.Time{})
}

// sign gives the token of a generation for content. A new one must expire after a time.
func (s *Signer) sign(
	ctx context.Context, d Document, generation int, open func() (io.ReadCloser, error), after time.Time,
) (Result, error) {
	digests := &digester{open: open}
	t, err := s.o.Catalog.Token(ctx, d.subject(), generation)
	switch {
	case err == nil:
		return s.recorded(d, t, digests, nil)
	case !errors.Is(err, catalog.ErrNotFound):
		return Result{}, err
	}
	names := namesOf(d.Path, generation)
	answer := s.written(d, names, digests)
	if answer == nil {
		if answer, err = s.request(ctx, d, digests, after); err != nil {
			return Result{}, err
		}
		t := answer.token
		if err := s.write(d.Dir, names.of(answer.query, answer.reply, t.DER, t.ChainPEM())); err != nil {
			return Result{}, fmt.Errorf("time stamp of %s: %w", d.subject(), err)
		}
	}
	if t, err = s.record(ctx, d, generation, answer); err != nil {
		return Result{}, err
	}
	return s.recorded(d, t, digests, answer.warnings)
}

// answer is a good answer of an authority.
type answer struct {
	query, reply []byte
	token        *rfc3161.Token
	by           *timestamp.Authority
	warnings     []string
}

// request asks the authorities in their order.
func (s *Signer) request(
	ctx context.Context, d Document, digests *digester, after time.Time,
) (*answer, error) {
	failure := &FailedError{Subject: d.subject()}
	for _, a := range s.asked(d) {
		digest, err := digests.of(a.Hash())
		if err != nil {
			return nil, err
		}
		if err := s.o.Point("request"); err != nil {
			return nil, err
		}
		req, reply, t, err := a.Stamp(ctx, s.o.Client, digest)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil && !t.Expires().After(after) { // else each run would make another one
			err = &timestamp.Error{Authority: a.Name(), Transient: true, Err: fmt.Errorf("%w: on %s", ErrNoGain,
				t.Expires().UTC().Format(time.RFC3339))}
		}
		if err == nil {
			out := &answer{query: req.DER, reply: reply, token: t, by: a}
			if off := t.Time.Sub(s.o.Now()); off.Abs() > 5*time.Minute {
				out.warnings = append(out.warnings, fmt.Sprintf(
					"the time of the authority %s differs from this computer's by %.0f seconds: check both clocks",
					a.Name(), off.Seconds()))
			}
			return out, s.o.Point("answer")
		}
		s.o.Log.Warn("no time stamp", "authority", a.Name(), "subject", d.subject(), "error", err)
		failure.Errs = append(failure.Errs, err)
		var e *timestamp.Error
		if errors.As(err, &e) && e.Transient {
			failure.Transient = true
			failure.After = max(failure.After, e.After)
		}
	}
	return nil, failure
}

// asked gives the authorities that are asked for a document. A name that is no longer configured is left out; if none
// remains, all are asked.
func (s *Signer) asked(d Document) (some []*timestamp.Authority) {
	for _, name := range d.Authorities {
		for _, a := range s.o.Authorities {
			if a.Name() == name {
				some = append(some, a)
			}
		}
	}
	if len(some) == 0 {
		return s.o.Authorities
	}
	return some
}

// written gives the answer whose files an earlier attempt wrote before it could record them; nil if there is none.
func (s *Signer) written(d Document, names names, digests *digester) *answer {
	query, err := read(d.Dir, names.query)
	if err != nil {
		return nil
	}
	reply, err := read(d.Dir, names.reply)
	if err != nil {
		return nil
	}
	req, err := rfc3161.ParseRequest(query)
	if err != nil {
		return nil
	}
	digest, err := digests.of(req.Hash)
	if err != nil || !bytes.Equal(digest, req.Digest) {
		return nil
	}
	for _, a := range s.o.Authorities {
		if t, err := a.Verifier().Reply(req, reply); err == nil {
			return &answer{query: query, reply: reply, token: t, by: a}
		}
	}
	return nil
}

// record enters a token in the catalog, which gives the one that was entered first.
func (s *Signer) record(ctx context.Context, d Document, generation int, a *answer) (catalog.Token, error) {
	t := a.token
	event := catalog.Event{
		Key: fmt.Sprintf("time stamp/%s/%d", d.subject(), generation), Job: d.Job, Path: d.Path,
		Type: "digital signature generation", Outcome: "success", Agent: s.o.Agent, At: t.Time,
		Detail: fmt.Sprintf("RFC 3161 time stamp %d of %s, serial number %s", generation, a.by.Name(), t.Serial),
	}
	return s.o.Catalog.PutToken(ctx, catalog.Token{
		Subject: d.subject(), Generation: generation, Job: d.Job, Path: d.Path, Algorithm: algorithm(t.Hash),
		Imprint: hex.EncodeToString(t.Digest), Query: a.query, Reply: a.reply, Chain: string(t.ChainPEM()),
		Authority: a.by.Name(), URL: a.by.URL(), Time: t.Time, Serial: t.Serial.String(), Policy: t.Policy.String(),
		Expires: t.Expires(), Verified: s.o.Now(),
	}, event)
}

// recorded verifies a token of the catalog for the content, and brings its files into the directory.
func (s *Signer) recorded(d Document, t catalog.Token, digests *digester, warnings []string) (Result, error) {
	h := hashes[t.Algorithm]
	digest, err := digests.of(h)
	if err != nil {
		return Result{}, err
	}
	if got := hex.EncodeToString(digest); got != t.Imprint {
		return Result{}, fmt.Errorf("time stamp of %s: %w: the content has the %s %s, and the token is for %s",
			d.subject(), rfc3161.ErrDigest, t.Algorithm, got, t.Imprint)
	}
	token, err := rfc3161.TokenOf(t.Reply)
	if err == nil {
		_, err = s.trusted.Token(token, h, digest)
	}
	if err != nil {
		return Result{}, fmt.Errorf("time stamp of %s: %w", d.subject(), err)
	}
	names := namesOf(d.Path, t.Generation)
	if err := s.write(d.Dir, names.of(t.Query, t.Reply, token, []byte(t.Chain))); err != nil {
		return Result{}, fmt.Errorf("time stamp of %s: %w", d.subject(), err)
	}
	files := names.all()
	if t.Generation > 1 {
		files = append([]string{names.list}, files...)
	}
	return Result{Token: t, Files: files, Warnings: warnings}, nil
}

// names are the paths of the files of a generation.
type names struct{ list, query, chain, token, reply string }

func namesOf(document string, generation int) names {
	if generation > 1 {
		document += fmt.Sprintf(".%d", generation)
	}
	return names{document + ".sha512", document + ".tsq", document + ".pem", document + ".tst", document + ".tsr"}
}

func (n names) all() []string { return []string{n.query, n.chain, n.token, n.reply} }

type content struct {
	name string
	text []byte
}

// of gives the files in the order in which they are written: the answer is last.
func (n names) of(query, reply, token, chain []byte) []content {
	return []content{{n.query, query}, {n.chain, chain}, {n.token, token}, {n.reply, reply}}
}

// write writes files that differ from what the directory has.
func (s *Signer) write(dir *os.Root, files []content) error {
	for _, f := range files {
		if had, err := read(dir, f.name); err == nil && bytes.Equal(had, f.text) {
			continue
		}
		if err := s.o.Point("write " + path.Ext(f.name)); err != nil {
			return err
		}
		if above := path.Dir(f.name); above != "." {
			if err := dir.MkdirAll(above, 0o750); err != nil {
				return err
			}
		}
		file := durable.File{Root: dir, Name: f.name, Mode: 0o640}
		if err := file.Write(durable.Text(f.text)); err != nil {
			return err
		}
	}
	return nil
}

// read reads a small file.
func read(dir *os.Root, name string) ([]byte, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return limited(f)
}

// limited reads a file of a time stamp.
func limited(f io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(f, timestamp.MostReply+1))
	if err == nil && len(text) > timestamp.MostReply {
		err = fmt.Errorf("it is larger than %d bytes: %w", timestamp.MostReply, fs.ErrInvalid)
	}
	return text, err
}

func algorithm(h crypto.Hash) string {
	for name, x := range hashes {
		if x == h && name != "" {
			return name
		}
	}
	return ""
}

// digester computes digests of a content, each algorithm once.
type digester struct {
	open func() (io.ReadCloser, error)
	sums map[crypto.Hash][]byte
}

func (d *digester) of(h crypto.Hash) ([]byte, error) {
	if sum, ok := d.sums[h]; ok {
		return sum, nil
	}
	if !h.Available() {
		return nil, fmt.Errorf("the digest algorithm %d is not supported", h)
	}
	f, err := d.open()
	if err != nil {
		return nil, err
	}
	sum := h.New()
	if _, err := io.Copy(sum, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if d.sums == nil {
		d.sums = map[crypto.Hash][]byte{}
	}
	d.sums[h] = sum.Sum(nil)
	return d.sums[h], f.Close()
}
