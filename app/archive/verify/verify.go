// Package verify verifies archives that were retrieved, offline: by the files of a directory alone.
//
//	NAME.tar.gz and the like, directories with bagit.txt   bags (RFC 8493): complete, and every checksum right
//	NAME.sha256                                            lists for sha256sum -c
//	NAME.tsr beside NAME                                   time stamps (RFC 3161) of NAME
//	PACKAGE.tagmanifest-sha512.txt                         the seal: what is stamped must be what the bag has
package verify

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/archive/sign"
	"github.com/stagepost/stagepost/format/bagit"
	"github.com/stagepost/stagepost/format/rfc3161"
)

// Options of [Dir]. Trusted and Now are required.
type Options struct {
	Trusted *rfc3161.Verifier // of the time stamps
	Now     time.Time         // when the newest time stamp must be valid
}

// The kinds of checks.
const (
	Bag      = "bag"
	Checksum = "checksum"
	Stamp    = "time stamp"
	Seal     = "seal"
)

// Check is a check of a file.
type Check struct {
	Kind   string    `json:"kind"`
	Path   string    `json:"path"` // in the directory
	Fault  string    `json:"fault,omitempty"`
	Detail string    `json:"detail,omitempty"`
	Time   time.Time `json:"time,omitzero"` // of the first time stamp: the file existed then
}

// Report is what [Dir] found.
type Report struct {
	Checks []Check `json:"checks"`
	Faults int     `json:"faults"`
}

// Dir verifies what is in a directory. The error reports that it cannot be read; a directory without anything that can
// be verified is a fault.
func Dir(ctx context.Context, dir string, o Options) (Report, error) {
	v := &verifier{ctx: ctx, dir: dir, o: o}
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		return v.visit(filepath.ToSlash(rel), e)
	})
	if err == nil && len(v.out.Checks) == 0 {
		v.add(Check{Kind: Bag, Path: ".", Fault: "there is no bag, list of checksums or time stamp"})
	}
	return v.out, err
}

type verifier struct {
	ctx context.Context
	dir string
	o   Options
	out Report
}

func (v *verifier) add(c Check) {
	if c.Fault != "" {
		v.out.Faults++
	}
	v.out.Checks = append(v.out.Checks, c)
}

func (v *verifier) at(name string) string { return filepath.Join(v.dir, filepath.FromSlash(name)) }

// sealName ends the name of the seal of a package; the bag has the file without the name of the package.
const sealName = "tagmanifest-sha512.txt"

func (v *verifier) visit(name string, e fs.DirEntry) error {
	switch {
	case e.IsDir():
		if _, err := os.Stat(filepath.Join(v.at(name), "bagit.txt")); err != nil {
			return nil
		}
		if err := v.bag(name); err != nil {
			return err
		}
		return fs.SkipDir
	case !e.Type().IsRegular():
		v.add(Check{Kind: Bag, Path: name, Fault: "it is not a regular file"})
	case packed(name):
		return v.bag(name)
	case strings.HasSuffix(name, ".sha256"):
		return v.list(name)
	case strings.HasSuffix(name, "."+sealName):
		return v.seal(name)
	}
	if document, ok := strings.CutSuffix(name, ".tsr"); ok {
		if _, err := os.Stat(v.at(document)); err == nil {
			v.stamp(document)
		} else if !renewal(v.dir, document) {
			v.add(Check{Kind: Stamp, Path: name, Fault: "the file that is stamped is missing"})
		}
	}
	return nil
}

func packed(name string) bool {
	for _, end := range []string{".tar.gz", ".tgz", ".tar", ".zip"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// renewal reports whether NAME.N belongs to a renewal of a time stamp: its list is there.
func renewal(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name)+".sha512"))
	return err == nil
}

// bag validates a bag.
func (v *verifier) bag(name string) error {
	r, err := bagit.Validate(v.ctx, v.at(name), bagit.Options{})
	if v.ctx.Err() != nil {
		return v.ctx.Err()
	}
	if err != nil {
		v.add(Check{Kind: Bag, Path: name, Fault: err.Error()})
		return nil
	}
	c := Check{Kind: Bag, Path: name, Detail: fmt.Sprintf("%d files, %d bytes", r.Files, r.Bytes)}
	if len(r.Errors) > 0 {
		c.Fault = r.Errors[0].String()
		if more := len(r.Errors) + r.More - 1; more > 0 {
			c.Fault += fmt.Sprintf("; and %d more", more)
		}
	}
	v.add(c)
	return nil
}

// list compares the files of a list with their digests.
func (v *verifier) list(name string) error {
	text, err := os.ReadFile(v.at(name))
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		want, file, ok := strings.Cut(lines.Text(), "  ")
		if !ok || !fs.ValidPath(file) {
			v.add(Check{Kind: Checksum, Path: name, Fault: fmt.Sprintf("not a line of a list: %.100q", lines.Text())})
			continue
		}
		c := Check{Kind: Checksum, Path: path.Join(path.Dir(name), file)}
		got, err := v.digest(c.Path)
		switch {
		case v.ctx.Err() != nil:
			return v.ctx.Err()
		case err != nil:
			c.Fault = err.Error()
		case got != want:
			c.Fault = "its SHA-256 is " + got + ", and " + name + " has " + want
		}
		v.add(c)
	}
	return lines.Err()
}

func (v *verifier) digest(name string) (string, error) {
	f, err := os.Open(v.at(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, reading{v.ctx, f})
	return hex.EncodeToString(sum.Sum(nil)), err
}

// reading ends with its context.
type reading struct {
	ctx context.Context
	io.Reader
}

func (r reading) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// stamp verifies the time stamps of a file.
func (v *verifier) stamp(document string) {
	c := Check{Kind: Stamp, Path: document}
	found, err := sign.Verify(os.DirFS(v.dir), document, nil, v.o.Trusted, v.o.Now)
	if err != nil {
		c.Fault = err.Error()
	}
	if n := len(found.Stamps); n > 0 {
		c.Time = found.Stamps[0].Time
		c.Detail = fmt.Sprintf("%s, valid until %s", found.Stamps[n-1].Authority,
			found.Expires.UTC().Format(time.DateOnly))
	}
	v.add(c)
}

// seal compares the seal of a package with the file of the bag: else a time stamp of the seal proves nothing of the
// bag.
func (v *verifier) seal(name string) error {
	want, err := os.ReadFile(v.at(name))
	if err != nil {
		return err
	}
	base := strings.TrimSuffix(name, "."+sealName)
	c := Check{Kind: Seal, Path: name, Fault: "the bag " + base + " is missing"}
	for _, end := range []string{"", ".tar.gz", ".tgz", ".tar", ".zip"} {
		got, err := v.sealOf(base + end)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if c.Fault = ""; err != nil {
			c.Fault = err.Error()
		} else if !bytes.Equal(got, want) {
			c.Fault = "it is not the " + sealName + " of " + base + end
		}
		if c.Fault != "" {
			break
		}
	}
	v.add(c)
	return nil
}

// mostSeal bounds a seal in bytes.
const mostSeal = 1 << 30

// sealOf gives the file of a bag.
func (v *verifier) sealOf(bag string) ([]byte, error) {
	f, err := os.Open(v.at(bag))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return os.ReadFile(filepath.Join(v.at(bag), sealName))
	case strings.HasSuffix(bag, ".zip"):
		return inZip(f, info.Size())
	case strings.HasSuffix(bag, ".tar"):
		return inTar(reading{v.ctx, f})
	}
	z, err := gzip.NewReader(reading{v.ctx, f})
	if err != nil {
		return nil, err
	}
	return inTar(z)
}

// isSeal reports whether a file is the seal in the directory of the bag.
func isSeal(name string) bool {
	dir, file := path.Split(strings.TrimPrefix(name, "./"))
	return file == sealName && strings.Count(dir, "/") <= 1
}

var errNoSeal = errors.New("it has no " + sealName)

func inTar(r io.Reader) ([]byte, error) {
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil, errNoSeal
		}
		if err != nil {
			return nil, err
		}
		if isSeal(h.Name) {
			return io.ReadAll(io.LimitReader(t, mostSeal))
		}
	}
}

func inZip(f io.ReaderAt, size int64) ([]byte, error) {
	z, err := zip.NewReader(f, size)
	if err != nil {
		return nil, err
	}
	for _, one := range z.File {
		if !isSeal(one.Name) {
			continue
		}
		r, err := one.Open()
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return io.ReadAll(io.LimitReader(r, mostSeal))
	}
	return nil, errNoSeal
}
