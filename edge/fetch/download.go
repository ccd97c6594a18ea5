package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/stagepost/stagepost/internal/durable"
)

// Want is the expected file. An unknown size is UnknownSize, not 0: an empty file can be expected too.
type Want struct {
	Algorithm string // md5, sha1, sha256, sha384, sha512, crc32, adler32; empty with an empty Digest
	Digest    string // hexadecimal, either case
	Size      int64  // bytes, or UnknownSize
	// MaxBytes bounds this file more tightly than the policy, for example at 1.1 times the estimate. Defaults to the
	// policy's limit.
	MaxBytes int64
	// Scratch is a directory below the root for the unfinished files, for trees in which untrusted users choose the
	// names. Defaults to none: they are in the directory of the file, and names with their suffixes (.part,
	// .part.json) are refused.
	Scratch string
	// Set syncs the file later, so that several files are synced together. Until then a crash may leave a file with
	// the name and other bytes; so it is not used, and the file is synced at once, where an existing file of the right
	// size would be accepted without a digest. Its bytes are in memory until it has more than 64 KiB or is complete.
	// Defaults to none.
	Set *durable.Set
	// New states that the file was not downloaded before, in whole or in part, so that no earlier file is searched for.
	// One that is there nevertheless is replaced, and counts for nothing.
	New bool
	// Progress, if not nil, is called by the downloading goroutine after each piece with the bytes stored so far and
	// the size, or UnknownSize. After a restart the count begins again.
	Progress func(have, size int64)
}

// Got describes the downloaded file. The digests are computed from the written bytes.
type Got struct {
	Size        int64
	SHA256      string // hexadecimal, lower case, like all digests here
	SHA512      string
	Digest      string // by Want.Algorithm; empty without one
	ETag        string // of the last answer; empty if no request was needed
	ContentType string
	Resumed     int64 // bytes that were kept from earlier calls or attempts
	Reused      bool  // the complete file existed and no request was sent
}

// Download downloads the file at rawURL to name below root, whose directory must exist. When it returns nil the file
// has the expected size and digest and is synced, or is in Want.Set. When it fails, name is unchanged, and usable bytes
// stay in name+".part" for the next call; wrong or surplus bytes are removed.
//
// A file that exists and has the expected digest (or, if only a size is expected, that size) is accepted without a
// request; another one is replaced. Two downloads of one name must not run at the same time. The error is an *Error.
func (c *Client) Download(ctx context.Context, rawURL string, root *os.Root, name string, want Want) (Got, error) {
	t := &transfer{client: c, url: rawURL, root: root, name: name, want: want}
	if err := t.check(); err != nil {
		return Got{}, err
	}
	if got, ok, err := t.existing(); ok || err != nil {
		return got, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.policy.TotalTimeout, ErrTimeout)
	defer cancel()
	var got Got
	err := c.retry(ctx, func() (err error) {
		got, err = t.try(ctx)
		return err
	})
	if err != nil {
		return Got{}, err
	}
	return got, nil
}

// transfer is one call of Download.
type transfer struct {
	client *Client
	url    string
	root   *os.Root
	name   string
	want   Want
	limit  int64
}

func (t *transfer) check() error {
	if !filepath.IsLocal(t.name) {
		return &Error{Kind: Invalid, Err: fmt.Errorf("name %q is not a local path", t.name)}
	}
	if t.want.Scratch != "" && !filepath.IsLocal(t.want.Scratch) {
		return &Error{Kind: Invalid, Err: fmt.Errorf("scratch directory %q is not a local path", t.want.Scratch)}
	}
	if t.want.Scratch != "" {
		t.want.Scratch = path.Clean(t.want.Scratch)
	}
	t.name = path.Clean(t.name)
	if clashes(t.want.Scratch, t.name) {
		return &Error{Kind: Invalid, Err: fmt.Errorf("name %q is one of an unfinished download", t.name)}
	}
	if _, err := newSums(t.want); err != nil {
		return &Error{Kind: Invalid, Err: err}
	}
	if t.want.Size < UnknownSize {
		return &Error{Kind: Invalid, Err: fmt.Errorf("size %d is negative", t.want.Size)}
	}
	u, err := t.client.policy.parse(t.url)
	if err != nil {
		return err
	}
	t.limit = t.client.policy.MaxBytes
	if t.want.MaxBytes > 0 {
		t.limit = min(t.limit, t.want.MaxBytes)
	}
	if t.want.Size > t.limit {
		return t.tooLarge(redact(u))
	}
	return nil
}

func (t *transfer) tooLarge(where string) error {
	return &Error{Kind: TooLarge, URL: where, Err: fmt.Errorf("more than %d bytes", t.limit)}
}

// existing finds a complete file of an earlier call.
func (t *transfer) existing() (Got, bool, error) {
	if t.want.New || t.want.Digest == "" && t.want.Size < 0 {
		return Got{}, false, nil
	}
	err := regular(t.root, t.name)
	if errors.Is(err, fs.ErrNotExist) {
		return Got{}, false, nil
	}
	if err != nil {
		return Got{}, false, storageError(err)
	}
	f, err := t.root.Open(t.name)
	if err != nil {
		return Got{}, false, storageError(err)
	}
	got, ok, err := t.accept(f)
	if !ok || err != nil || t.want.Set == nil {
		return got, ok, errors.Join(err, f.Close())
	}
	// A process that was killed may have named it before it was synced.
	if err := errors.Join(t.want.Set.File(f, got.Size), t.want.Set.Dir(path.Dir(t.name))); err != nil {
		return Got{}, false, storageError(err)
	}
	return got, true, nil
}

// accept reads a file through and reports whether it is the expected one.
func (t *transfer) accept(f *os.File) (Got, bool, error) {
	info, err := f.Stat()
	if err != nil {
		return Got{}, false, storageError(err)
	}
	if t.want.Size >= 0 && info.Size() != t.want.Size {
		return Got{}, false, nil
	}
	s, err := newSums(t.want)
	if err != nil {
		return Got{}, false, &Error{Kind: Invalid, Err: err}
	}
	if _, err := io.Copy(s, f); err != nil {
		return Got{}, false, storageError(err)
	}
	if s.wanted != nil && !s.matches() {
		return Got{}, false, nil
	}
	got := s.got()
	got.Reused, got.Resumed = true, got.Size
	return got, true, nil
}

// try makes one attempt and continues the previous one. If the kept bytes do not belong to the file, it restarts from
// the first byte.
func (t *transfer) try(ctx context.Context) (Got, error) {
	p, err := t.openPartial()
	if err != nil {
		return Got{}, storageError(err)
	}
	defer p.close()
	for {
		got, err := t.attempt(ctx, p)
		var e *Error
		if err == nil {
			return got, t.finish(p)
		}
		if p.kept > 0 && errors.As(err, &e) && (e.Kind == BadDigest || e.Kind == BadSize || errors.Is(err, errStale)) {
			p.reset()
			continue
		}
		return Got{}, t.keep(p, err)
	}
}

// errStale means that the server cannot or does not continue the kept bytes.
var errStale = errors.New("the server has another version or serves no such range")

func (t *transfer) finish(p *partial) error {
	if err := p.finish(); err != nil {
		return storageError(err)
	}
	return nil
}

// keep decides after a failure whether the bytes so far are usable, and returns the error.
func (t *transfer) keep(p *partial, cause error) error {
	var e *Error
	if !errors.As(cause, &e) {
		return storageError(cause)
	}
	var err error
	switch {
	case e.Kind == Storage:
		return cause
	case e.Kind == TooLarge || e.Kind == BadDigest || e.Kind == BadSize || p.size == 0:
		err = p.discard()
	case p.version.Synced != p.size:
		err = p.save()
	}
	if err != nil {
		return storageError(errors.Join(err, cause))
	}
	return cause
}

func (t *transfer) attempt(ctx context.Context, p *partial) (Got, error) {
	s, err := newSums(t.want)
	if err != nil {
		return Got{}, &Error{Kind: Invalid, Err: err}
	}
	if err := p.hash(s); err != nil {
		return Got{}, storageError(err)
	}
	if p.kept > 0 && t.complete(p, s) {
		got := s.got()
		got.Resumed = p.kept
		return got, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, where, err := t.ask(ctx, p)
	if err != nil {
		return Got{}, err
	}
	defer resp.Body.Close()
	size, err := t.open(p, resp, where)
	if err != nil {
		return Got{}, err
	}
	if p.kept == 0 { // perhaps a 200 for a range request: the whole file follows
		if s, err = newSums(t.want); err != nil {
			return Got{}, &Error{Kind: Invalid, Err: err}
		}
	}
	body := newPaced(resp.Body, &t.client.policy, cancel)
	if err := t.copy(ctx, p, s, body, where, size); err != nil {
		return Got{}, err
	}
	if err := t.verify(s, resp, where); err != nil {
		return Got{}, err
	}
	got := s.got()
	got.ETag, got.ContentType, got.Resumed = resp.Header.Get("ETag"), resp.Header.Get("Content-Type"), p.kept
	return got, nil
}

// complete reports whether the kept bytes are the whole file: the last call ended between the last byte and the
// rename.
func (t *transfer) complete(p *partial, s *sums) bool {
	if t.want.Size >= 0 && p.size != t.want.Size {
		return false
	}
	if s.wanted != nil {
		return s.matches()
	}
	return p.version.Total == p.size
}

// ask sends the request, for the rest of the file if bytes were kept.
func (t *transfer) ask(ctx context.Context, p *partial) (*http.Response, string, error) {
	header := http.Header{}
	if p.size > 0 {
		header.Set("Range", "bytes="+strconv.FormatInt(p.size, 10)+"-")
		if v := p.version.validator(); v != "" {
			header.Set("If-Range", v)
		}
	}
	return t.client.request(ctx, http.MethodGet, t.url, header)
}

// open checks the answer's header, and prepares the .part file for its body. It returns the size of the whole file,
// or UnknownSize.
func (t *transfer) open(p *partial, resp *http.Response, where string) (int64, error) {
	total := resp.ContentLength
	switch {
	case resp.StatusCode == http.StatusOK:
		p.reset()
	case resp.StatusCode == http.StatusPartialContent && p.size > 0:
		r, ok := parseContentRange(resp.Header.Get("Content-Range"))
		if !ok || r.first != p.size || !p.version.same(resp, r) {
			return 0, &Error{Kind: Server, URL: where, Status: resp.StatusCode, Err: errStale}
		}
		if r.total >= 0 && r.last+1 != r.total {
			return 0, &Error{Kind: Server, URL: where, Status: resp.StatusCode, Err: errStale}
		}
		total = r.total
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && p.size > 0:
		return 0, &Error{Kind: Server, URL: where, Status: resp.StatusCode, Err: errStale}
	default:
		return 0, statusError(where, resp, time.Now())
	}
	if t.want.Size >= 0 && total >= 0 && total != t.want.Size {
		return 0, &Error{Kind: BadSize, URL: where, Err: fmt.Errorf("server has %d bytes, want %d", total, t.want.Size)}
	}
	if total > t.limit {
		return 0, t.tooLarge(where)
	}
	v := versionOf(p.version.Source, resp, total)
	if p.size > 0 && v.validator() == "" {
		v = p.version // a partial answer may omit what the full one had
		v.Total = max(v.Total, total)
	}
	if err := p.begin(v); err != nil {
		return 0, storageError(err)
	}
	return total, nil
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 128<<10); return &b }}

// copy writes the body to the .part file and to the digests.
func (t *transfer) copy(ctx context.Context, p *partial, s *sums, body io.Reader, where string, size int64) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for {
		n, err := body.Read(*buf)
		if int64(n) > t.limit-p.size {
			return t.tooLarge(where)
		}
		if t.want.Size >= 0 && int64(n) > t.want.Size-p.size {
			return &Error{Kind: BadSize, URL: where,
				Err: fmt.Errorf("server sends more than the %d bytes wanted", t.want.Size)}
		}
		if n > 0 {
			if err := p.write((*buf)[:n]); err != nil {
				return storageError(err)
			}
			s.Write((*buf)[:n])
			if t.want.Progress != nil {
				t.want.Progress(p.size, size)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return networkError(ctx, where, err)
		}
	}
	if size >= 0 && p.size < size {
		return networkError(ctx, where, io.ErrUnexpectedEOF)
	}
	return nil
}

// verify checks the complete bytes. A body without framing that ends early appears complete; if the size differs, it
// counts as truncated.
func (t *transfer) verify(s *sums, resp *http.Response, where string) error {
	if t.want.Size >= 0 && s.size != t.want.Size {
		if s.size < t.want.Size && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 {
			return &Error{Kind: Network, URL: where, Err: io.ErrUnexpectedEOF}
		}
		return &Error{Kind: BadSize, URL: where, Err: fmt.Errorf("got %d bytes, want %d", s.size, t.want.Size)}
	}
	if s.wanted != nil && !s.matches() {
		return &Error{Kind: BadDigest, URL: where,
			Err: fmt.Errorf("%s is %s, want %s", t.want.Algorithm, s.got().Digest, s.digest)}
	}
	return nil
}
