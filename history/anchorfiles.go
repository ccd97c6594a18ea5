package history

import (
	"bufio"
	"crypto"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/internal/durable"
)

// file writes a file whole or not at all. With fresh, one that exists is not replaced: the error is [fs.ErrExist].
func (a *Anchors) file(root *os.Root, name string, fresh bool, fill func(*os.File) error) error {
	f := durable.File{Root: root, Name: name, Temporary: name + "." + a.id + temporary, New: fresh}
	return f.Write(fill)
}

func (a *Anchors) put(root *os.Root, name string, fresh bool, text []byte) error {
	return a.file(root, name, fresh, func(f *os.File) error {
		_, err := f.Write(text)
		return err
	})
}

// temporary is the ending of files that are being written.
const temporary = ".new"

// sweep removes what processes that ended while they wrote have left.
func (a *Anchors) sweep(root *os.Root) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		if info, gone := e.Info(); gone == nil && strings.HasSuffix(e.Name(), temporary) &&
			a.o.Now().Sub(info.ModTime()) > abandoned {
			err = errors.Join(err, root.Remove(e.Name()))
		}
	}
	return err
}

// abandoned is how long no process takes to write a file.
const abandoned = 24 * time.Hour

func anchorName(n int64) string { return fmt.Sprintf("%08d.txt", n) }

func replyName(n int64) string { return anchorName(n) + ".tsr" }

var anchorNames = regexp.MustCompile(`^([0-9]{8,18})\.txt$`)

// listAnchors lists the numbers of the anchors of a directory, in their order.
func listAnchors(dir fs.FS) (all []int64, err error) {
	names, err := fs.ReadDir(dir, ".")
	for _, e := range names {
		if m := anchorNames.FindStringSubmatch(e.Name()); m != nil {
			n, _ := strconv.ParseInt(m[1], 10, 64) // 18 digits fit
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, err
}

// headOf reads the head of an anchor.
func headOf(dir fs.FS, n int64) (a Anchor, err error) {
	f, err := dir.Open(anchorName(n))
	if err != nil {
		return a, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, mostLine), mostLine)
	if err := a.readHead(lines); err != nil {
		return a, fmt.Errorf("%s: %w", filepath.Base(anchorName(n)), err)
	}
	return a, nil
}

func sumFile(root *os.Root, name string) (string, error) {
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return sumOf(f)
}

// sumWith gives the digest of a file.
func sumWith(root *os.Root, name string, h crypto.Hash) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return digestOf(f, h)
}

func digestOf(r io.Reader, h crypto.Hash) ([]byte, error) {
	if !h.Available() {
		return nil, fmt.Errorf("the digest algorithm %d is not supported", h)
	}
	sum := h.New()
	if _, err := io.Copy(sum, r); err != nil {
		return nil, err
	}
	return sum.Sum(nil), nil
}
