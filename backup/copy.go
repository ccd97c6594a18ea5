package backup

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/stagepost/stagepost/internal/durable"
)

// hashed writes through to w and computes the SHA-256 of what it wrote.
type hashed struct {
	w   io.Writer
	sum hash.Hash
	n   int64
}

func newHashed(w io.Writer) *hashed { return &hashed{w: w, sum: sha256.New()} }

func (h *hashed) Write(p []byte) (int, error) {
	n, err := h.w.Write(p)
	h.sum.Write(p[:n])
	h.n += int64(n)
	return n, err
}

func (h *hashed) hex() string { return hexOf(h.sum.Sum(nil)) }

// stopping is a reader that ends with its context.
type stopping struct {
	ctx context.Context
	r   io.Reader
}

func (s stopping) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(p)
}

// copyFile copies up to limit bytes of a file (-1: all) to a new one, brings them to the disk, and gives their number
// and digest. Mode and time of the new file are those given.
func copyFile(ctx context.Context, from, to string, limit int64, mode os.FileMode, at time.Time) (size int64,
	sum string, err error) {
	in, err := os.Open(from)
	if err != nil {
		return 0, "", err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, "", err
	}
	var text io.Reader = stopping{ctx, in}
	if limit >= 0 {
		text = io.LimitReader(text, limit)
	}
	h := newHashed(out)
	_, err = io.Copy(h, text)
	if err == nil {
		err = out.Chmod(mode.Perm())
	}
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = os.Chtimes(to, at, at)
	}
	return h.n, h.hex(), err
}

// digestOf reads a file and gives size and digest.
func digestOf(ctx context.Context, name string) (int64, string, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := newHashed(io.Discard)
	_, err = io.Copy(h, stopping{ctx, f})
	return h.n, h.hex(), err
}

// putFile writes a new small file and brings it to the disk.
func putFile(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDirs does so for a directory and all below it.
func syncDirs(dir string) error {
	return filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return durable.Sync(name)
	})
}
