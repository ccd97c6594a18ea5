package history

import (
	"bytes"
	"context"
	"crypto"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/stagepost/stagepost/edge/timestamp"
	"github.com/stagepost/stagepost/format/rfc3161"
)

// stamp gives the time stamp of an anchor, and requests it if there is none.
func (a *Anchors) stamp(
	ctx context.Context, root *os.Root, n int64, authorities []*timestamp.Authority,
) (*rfc3161.Token, error) {
	if t, err := a.written(root, n, authorities); t != nil || err != nil {
		return t, err
	}
	var errs []error
	for _, by := range authorities {
		req, err := a.request(root, n, by)
		if err != nil {
			return nil, err
		}
		if err := a.point("request"); err != nil {
			return nil, err
		}
		reply, t, err := by.Send(ctx, a.o.Client, req)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		err = a.keep(root, n, reply, t)
		if errors.Is(err, fs.ErrExist) { // another server was first
			return a.written(root, n, authorities)
		}
		return t, err
	}
	return nil, errors.Join(errs...)
}

// request gives the request for the time stamp of an anchor. It is written once, before it is sent: whichever answer is
// kept fits it. Only an authority that needs another one replaces it.
func (a *Anchors) request(root *os.Root, n int64, by *timestamp.Authority) (*rfc3161.Request, error) {
	sum, err := sumWith(root, anchorName(n), by.Hash())
	if err != nil {
		return nil, err
	}
	name := anchorName(n) + ".tsq"
	for fresh := true; ; fresh = false {
		if text, err := root.ReadFile(name); err == nil {
			req, err := rfc3161.ParseRequest(text)
			if err == nil && by.Takes(req) && bytes.Equal(req.Digest, sum) {
				return req, nil
			}
			fresh = false
		}
		req, err := by.Request(sum)
		if err == nil {
			err = a.point("write .tsq")
		}
		if err == nil {
			err = a.put(root, name, fresh, req.DER)
		}
		if !errors.Is(err, fs.ErrExist) {
			return req, err
		}
	}
}

// keep writes the files of a time stamp. The answer is the last one, and is not replaced.
func (a *Anchors) keep(root *os.Root, n int64, reply []byte, t *rfc3161.Token) error {
	for _, f := range []struct {
		ending string
		text   []byte
	}{{".tst", t.DER}, {".pem", t.ChainPEM()}, {".tsr", reply}} {
		if err := a.point("write " + f.ending); err != nil {
			return err
		}
		if err := a.put(root, anchorName(n)+f.ending, f.ending == ".tsr", f.text); err != nil {
			return err
		}
	}
	return nil
}

func (a *Anchors) put(root *os.Root, name string, fresh bool, text []byte) error {
	return a.file(root, name, fresh, func(f *os.File) error {
		_, err := f.Write(text)
		return err
	})
}

// written verifies the time stamp whose answer was written before; nil: there is none. One that does not fit, or whose
// authority is no longer configured, is an error: it is evidence that is not replaced.
func (a *Anchors) written(root *os.Root, n int64, authorities []*timestamp.Authority) (*rfc3161.Token, error) {
	reply, err := root.ReadFile(replyName(n))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	query, err := root.ReadFile(anchorName(n) + ".tsq")
	if err != nil {
		return nil, err
	}
	sum := func(h crypto.Hash) ([]byte, error) { return sumWith(root, anchorName(n), h) }
	for _, by := range authorities {
		var t *rfc3161.Token
		if t, err = checkStamp(query, reply, sum, by.Verifier()); err == nil {
			return t, nil
		}
	}
	return nil, fmt.Errorf("the time stamp of anchor %d: %w", n, err)
}

// checkStamp verifies an answer for a content.
func checkStamp(
	query, reply []byte, sum func(crypto.Hash) ([]byte, error), trusted *rfc3161.Verifier,
) (*rfc3161.Token, error) {
	req, err := rfc3161.ParseRequest(query)
	if err != nil {
		return nil, err
	}
	if req.Digest, err = sum(req.Hash); err != nil { // what the content has, not what the request states
		return nil, err
	}
	return trusted.Reply(req, reply)
}
