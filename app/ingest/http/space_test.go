package ingesthttp_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// volume is a storage whose free space a test sets.
type volume struct {
	free   atomic.Int64
	broken error
}

func (v *volume) Writable(context.Context) error { return v.broken }

func (v *volume) Admit(bytes int64) error {
	if v.free.Load()-3 >= bytes {
		return nil
	}
	return &job.Error{Kind: job.Unavailable, Op: "submit",
		Err: &job.Full{Dir: "/srv/x", Free: v.free.Load(), Reserve: 3, Need: bytes}}
}

func (v *volume) Full(err error) error {
	var known *job.Full
	if !job.IsFull(err) || errors.As(err, &known) {
		return err
	}
	return &job.Error{Kind: job.Unavailable, Op: "store", Err: &job.Full{Dir: "/srv/x", Free: v.free.Load()}}
}

// filling takes the space away once so many bytes have been read.
type filling struct {
	v    *volume
	n    int64
	size int64
	full sync.Once // the client reads on for a while after the refusal
}

func (f *filling) Read(b []byte) (int, error) {
	if f.n += int64(len(b)); f.n > f.size {
		return 0, fs.ErrClosed
	}
	if f.n > 1<<20 {
		f.full.Do(func() { f.v.free.Store(0) })
	}
	return len(b), nil
}

// TestUploadsLeaveTheReserve: a submission for which there is no space is refused with 507, directory and bytes, before
// it is read and while it is. Control: one that fits is taken.
func TestUploadsLeaveTheReserve(t *testing.T) {
	v := &volume{}
	w := open(t, func(o *options) { o.Storage = v }, nil)
	full := func(err error) {
		t.Helper()
		p := client.ProblemOf(err)
		if p == nil || p.Status != http.StatusInsufficientStorage || p.Kind != job.Unavailable ||
			!strings.Contains(p.Detail, "storage full: /srv/x has ") {
			t.Errorf("got %v (%+v)", err, p)
		}
	}
	v.free.Store(2)
	_, err := w.Client.Submit(t.Context(), client.Submission{Type: "file"},
		strings.NewReader(strings.Repeat("x", 1000)))
	full(err)
	v.free.Store(1 << 40)
	_, err = w.Client.Submit(t.Context(), client.Submission{Type: "file"}, &filling{v: v, size: 1 << 30})
	full(err)
	v.free.Store(1 << 40)
	if _, err = w.Client.Submit(t.Context(), client.Submission{Type: "file"}, strings.NewReader("x")); err != nil {
		t.Errorf("control: %v", err)
	}
}

// TestFullDiskIsNamed: an error of the operating system about a full disk is answered with 507, the directory and the
// bytes free. Control: another error stays internal, and its text stays in the log.
func TestFullDiskIsNamed(t *testing.T) {
	v := &volume{}
	w := open(t, func(o *options) { o.Storage = v }, nil)
	for _, c := range []struct {
		err    error
		status int
	}{
		{&fs.PathError{Op: "write", Path: "/srv/x/work/1", Err: syscall.ENOSPC}, http.StatusInsufficientStorage},
		{fmt.Errorf("it: %w", syscall.EDQUOT), http.StatusInsufficientStorage},
		{errors.New("secret"), http.StatusInternalServerError},
	} {
		v.free.Store(100)
		w.ingest.fail = c.err
		_, err := w.Client.Submit(t.Context(), client.Submission{Type: "file"}, strings.NewReader("x"))
		p := client.ProblemOf(err)
		if p == nil || p.Status != c.status || strings.Contains(p.Detail, "secret") ||
			(c.status == http.StatusInsufficientStorage) != strings.Contains(p.Detail, "/srv/x has 100 bytes free") {
			t.Errorf("%v: got %v (%+v)", c.err, err, p)
		}
	}
	v.broken = errors.New("/srv/x accepts no writes")
	if _, err := w.Client.Health(t.Context()); err == nil || !strings.Contains(err.Error(), "accepts no writes") {
		t.Errorf("health: %v", err)
	}
	v.broken = nil
	if _, err := w.Client.Health(t.Context()); err != nil {
		t.Errorf("control: %v", err)
	}
}
