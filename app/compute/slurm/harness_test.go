package slurm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
)

// parcel makes a parcel of files.
func parcel(id string, files map[string]string) *compute.Parcel {
	p := &compute.Parcel{Ticket: compute.Ticket{Job: job.ID(id), Attempt: 1, Secret: "secret of " + id},
		Service: "example", Owner: "somebody"}
	for name, text := range files {
		sum := sha256.Sum256([]byte(text))
		p.Files = append(p.Files, compute.File{Name: name, Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:])})
	}
	p.Open = func(name string) (io.ReadSeekCloser, error) {
		text, ok := files[name]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return closable{bytes.NewReader([]byte(text))}, nil
	}
	return p
}

func script(id, text string) *compute.Parcel { return parcel(id, map[string]string{"run.sh": text}) }

type closable struct{ *bytes.Reader }

func (closable) Close() error { return nil }

func handle(p *compute.Parcel) compute.Handle { return compute.Handle{Ticket: p.Ticket} }

// options are those of tests: impatient.
func options(dir string) Options {
	return Options{
		Dir: dir, Poll: 50 * time.Millisecond, Settle: 200 * time.Millisecond, Grace: time.Second,
		Timeout: 20 * time.Second,
		Log:     slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

func open(t *testing.T, o Options) *Slurm {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func submit(t *testing.T, s *Slurm, p *compute.Parcel) compute.Notice {
	t.Helper()
	n, err := s.Submit(context.Background(), p)
	if err != nil {
		t.Fatalf("%s: %v", p.Job, err)
	}
	return n
}

// enough is how long anything may take here that must come: long, since machines are slow and busy.
const enough = time.Minute

// follow inspects a payload whenever the executor reports that something changed, until it is as wanted.
func follow(t *testing.T, s *Slurm, h compute.Handle, what string, ok func(compute.Notice) bool) compute.Notice {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	for {
		n, err := s.Query(ctx, h)
		if err != nil {
			t.Fatalf("%s: %v", h.Job, err)
		}
		if ok(n) {
			return n
		}
		notified, leave := context.WithCancelCause(ctx)
		err = s.Notify(notified, func() {
			if n, err := s.Query(notified, h); err == nil && ok(n) {
				leave(errChanged)
			}
		}, func(job.ID) { leave(errChanged) })
		leave(nil)
		if !errors.Is(err, errChanged) {
			t.Fatalf("%s: not %s: %v; it stands so: %+v", h.Job, what, err, n)
		}
	}
}

var errChanged = errors.New("something changed")

func ended(t *testing.T, s *Slurm, p *compute.Parcel) compute.Notice {
	t.Helper()
	return follow(t, s, handle(p), "ended", func(n compute.Notice) bool { return n.Standing == compute.Ended })
}

func working(t *testing.T, s *Slurm, p *compute.Parcel) compute.Notice {
	t.Helper()
	return follow(t, s, handle(p), "running", func(n compute.Notice) bool { return n.Standing == compute.Works })
}

// output reads a log to its end.
func output(t *testing.T, s *Slurm, p *compute.Parcel, stream string, follow bool) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	r, err := s.Log(ctx, handle(p), stream, 0, follow)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// counted gives how often a script has run that appends a line to a file outside of its directory.
func counted(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}

func exists(path ...string) bool {
	_, err := os.Lstat(filepath.Join(path...))
	return err == nil
}

func mustLook(t *testing.T, s *Slurm, p *compute.Parcel) compute.Notice {
	t.Helper()
	n, err := s.Query(context.Background(), handle(p))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
