package moodle

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
)

// fileURL gives the address from which a token can read a file: Moodle names some files by the address for browsers,
// which leads to the login page.
func (c *client) fileURL(raw string) (*url.URL, error) {
	u, err := c.base.Parse(raw)
	if err != nil {
		return nil, err
	}
	if u.Scheme != c.base.Scheme || u.Host != c.base.Host {
		return nil, fmt.Errorf("%s is not on %s", u.Redacted(), c.base)
	}
	below := c.base.Path + "/webservice/pluginfile.php"
	if rest, ok := strings.CutPrefix(u.Path, c.base.Path+"/pluginfile.php"); ok { // a path, or a parameter file
		u.Path, u.RawPath = below+rest, ""
	}
	if rest, ok := strings.CutPrefix(u.Path, c.base.Path+"/tokenpluginfile.php/"); ok { // the first element is a secret
		_, rest, _ = strings.Cut(rest, "/")
		u.Path, u.RawPath = below+"/"+rest, ""
	}
	return u, nil
}

// file is what a Moodle states of a file that is downloaded.
type file struct {
	Size int64  // -1: unknown
	SHA1 string // empty: unknown
	Type string
}

const (
	maxCuts = 5 // times that a download continues after a broken connection
	maxSums = 3 // downloads of a file whose digest is wrong

	idleTimeout = 2 * time.Minute
)

// download is one download.
type download struct {
	c     *client
	u     *url.URL
	w     io.Writer
	sum   hash.Hash
	got   int64
	facts file
}

func (c *client) newDownload(raw string) (*download, error) {
	u, err := c.fileURL(raw)
	if err != nil {
		return nil, &source.Error{Op: raw, Err: err}
	}
	return &download{c: c, u: u, sum: sha1.New()}, nil
}

// download writes a file to w. It continues after a broken connection where the Moodle permits that, and compares the
// digest that the Moodle states (its ETag is the SHA-1 of the content).
func (c *client) download(ctx context.Context, raw string, w io.Writer) (file, error) {
	d, err := c.newDownload(raw)
	if err != nil {
		return file{}, err
	}
	d.w = w
	err = d.run(ctx, nil)
	return d.facts, err
}

// downloadTo writes a file below root, and continues what an earlier call left there. The caller closes and removes
// the file.
func (c *client) downloadTo(ctx context.Context, raw string, root *os.Root) (f file, body *os.File, err error) {
	err = repeat(func() error {
		f, body, err = c.downloadOnce(ctx, raw, root)
		return err
	})
	return f, body, err
}

func (c *client) downloadOnce(ctx context.Context, raw string, root *os.Root) (file, *os.File, error) {
	d, err := c.newDownload(raw)
	if err != nil {
		return file{}, nil, err
	}
	first, err := c.open(ctx, d.u, 0, "")
	if err != nil {
		return file{}, nil, err
	}
	d.state(first)
	if d.facts.SHA1 == "" {
		first.Body.Close()
		return file{}, nil, &source.Error{Op: d.u.Path, Err: errors.New("the Moodle states no digest of the file")}
	}
	// named by the content: nothing else is continued with it
	body, err := root.OpenFile("backup-"+d.facts.SHA1+".part", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		first.Body.Close()
		return file{}, nil, err
	}
	if d.got, err = io.Copy(d.sum, body); err == nil && d.got > d.facts.Size {
		d.got = 0
		d.sum.Reset()
		_, seek := body.Seek(0, io.SeekStart)
		err = errors.Join(seek, body.Truncate(0))
	}
	if err == nil && d.got > 0 {
		first.Body.Close() // the rest is requested
		first = nil
	}
	if d.w = body; err == nil {
		err = d.run(ctx, first)
	} else if first != nil {
		first.Body.Close()
	}
	if err != nil {
		if errors.Is(err, errWrongSum) { // what was there before is wrong as well
			err = errors.Join(err, body.Truncate(0))
		}
		return file{}, nil, errors.Join(err, body.Close())
	}
	return d.facts, body, nil
}

// state reads what the first answer states.
func (d *download) state(answer *http.Response) {
	d.facts = file{
		Size: answer.ContentLength, SHA1: etag(answer.Header), Type: answer.Header.Get("Content-Type"),
	}
}

// errWrongSum is a download that is whole and has another digest.
var errWrongSum = fmt.Errorf("%w", source.ErrContent)

// repeat downloads again while the digest is wrong, which is an error that stays after the third time.
func repeat(get func() error) error {
	for n := 1; ; n++ {
		err := get()
		if !errors.Is(err, errWrongSum) {
			return err
		}
		var wrong *source.Error
		if n == maxSums && errors.As(err, &wrong) {
			return &source.Error{Op: wrong.Op, Err: fmt.Errorf("in each of %d downloads: %w", n, wrong.Err)}
		}
	}
}

// run reads to the end. answer is the first answer, or nil.
func (d *download) run(ctx context.Context, answer *http.Response) error {
	for try := 0; ; try++ {
		if d.got > 0 && d.got == d.facts.Size {
			return d.finish()
		}
		if answer == nil {
			var err error
			if answer, err = d.c.open(ctx, d.u, d.got, d.facts.SHA1); err != nil {
				return err
			}
		}
		if d.got == 0 {
			d.state(answer)
		}
		ranges := answer.Header.Get("Accept-Ranges") != "none"
		n, err := io.Copy(io.MultiWriter(&local{d.w}, d.sum), &alive{answer.Body, d.c.idle})
		answer.Body.Close()
		answer = nil
		d.got += n
		var mine *writeError
		switch {
		case errors.As(err, &mine):
			return mine.error
		case err == nil && (d.facts.Size < 0 || d.got == d.facts.Size):
			return d.finish()
		case ctx.Err() != nil:
			return ctx.Err()
		case d.facts.SHA1 == "" || !ranges || try == maxCuts:
			err = fmt.Errorf("%w: %d of %d bytes came: %w", source.ErrContent, d.got, d.facts.Size,
				cmp.Or(err, io.ErrUnexpectedEOF))
			return &source.Error{Op: d.u.Path, Err: err, Transient: true}
		}
	}
}

// alive is a body that is closed if no bytes come for a time.
type alive struct {
	body io.ReadCloser
	idle time.Duration
}

// Read reads with a timer: the time that a writer takes does not count.
func (a *alive) Read(p []byte) (int, error) {
	timer := time.AfterFunc(a.idle, func() { a.body.Close() })
	n, err := a.body.Read(p)
	if !timer.Stop() && err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("the download stood still: %w", err)
	}
	return n, err
}

// finish compares the digest.
func (d *download) finish() error {
	have := hex.EncodeToString(d.sum.Sum(nil))
	if d.facts.SHA1 != "" && have != d.facts.SHA1 {
		err := fmt.Errorf("%w: the SHA-1 is %s, not %s", errWrongSum, have, d.facts.SHA1)
		return &source.Error{Op: d.u.Path, Err: err, Transient: true}
	}
	d.facts.SHA1, d.facts.Size = have, d.got
	return nil
}

// local marks errors of the writer, which are not the Moodle's.
type local struct{ w io.Writer }

type writeError struct{ error }

func (l *local) Write(p []byte) (int, error) {
	n, err := l.w.Write(p)
	if err != nil {
		return n, &writeError{err}
	}
	return n, nil
}

// open requests a file from an offset. The token goes into the body, so that no log of the Moodle has it.
func (c *client) open(ctx context.Context, u *url.URL, from int64, sum string) (*http.Response, error) {
	body := strings.NewReader(url.Values{"token": {c.token}}.Encode())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept-Encoding", "identity")
	if from > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		r.Header.Set("If-Range", `"`+sum+`"`)
	}
	answer, err := c.do(r, u.Path)
	if err != nil {
		return nil, err
	}
	if kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); kind == "application/json" {
		if err := jsonFailure(answer, u.Path); err != nil {
			return nil, err
		}
	}
	if from > 0 && (answer.StatusCode != http.StatusPartialContent || etag(answer.Header) != sum) {
		answer.Body.Close()
		err := fmt.Errorf("%w: the file changed while it was downloaded", source.ErrContent)
		return nil, &source.Error{Op: u.Path, Err: err, Transient: true}
	}
	return answer, nil
}

// jsonFailure reads the begin of an answer that may be an error in place of a file, and puts it back.
func jsonFailure(answer *http.Response, op string) error {
	head, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil {
		answer.Body.Close()
		return &source.Error{Op: op, Err: err, Transient: true}
	}
	if f, ok := failed(head); ok && etag(answer.Header) == "" {
		answer.Body.Close()
		return f.as(op)
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), answer.Body), answer.Body}
	return nil
}

// etag gives the SHA-1 that an ETag states, or nothing.
func etag(h http.Header) string {
	tag := strings.Trim(strings.TrimPrefix(h.Get("ETag"), "W/"), `"`)
	if raw, err := hex.DecodeString(tag); err != nil || len(raw) != sha1.Size {
		return ""
	}
	return strings.ToLower(tag)
}
