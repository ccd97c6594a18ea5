package unpack

import (
	"archive/tar"
	"errors"
	"fmt"
	"path"
	"strings"
)

// maxChain bounds the symbolic links from one to the file at the end.
const maxChain = 40

// link is a symbolic link and the name to which it leads, in the archive.
type link struct{ name, target string }

// link takes a link of a tar. A hard link names a file before it, from the top of the archive. A symbolic link is
// relative to its directory and may name a file behind it, so that it is kept for the end.
func (w *writer) link(hdr *tar.Header) error {
	if hdr.Typeflag == tar.TypeLink {
		target, err := w.target(hdr.Name, ".", hdr.Linkname)
		if err != nil {
			return err
		}
		if _, err := w.root.Lstat(target); err != nil {
			return refuse(Link, hdr.Name, fmt.Errorf("it is a hard link to %.200q, which is no file before it in the "+
				"archive", target))
		}
		return w.copyOf(link{hdr.Name, target})
	}
	target, err := w.target(hdr.Name, path.Dir(hdr.Name), hdr.Linkname)
	if err != nil {
		return err
	}
	if len(w.links) == w.limits.Files {
		return refuse(TooMany, hdr.Name, fmt.Errorf("more than %d", w.limits.Files))
	}
	w.links = append(w.links, link{hdr.Name, target})
	return nil
}

// target returns the name to which a link leads; names that leave the archive are refused.
func (w *writer) target(name, dir, text string) (string, error) {
	joined := path.Join(dir, text)
	switch {
	case text == "" || path.IsAbs(text) || strings.Contains(text, "\\"):
		return "", refuse(Link, name, fmt.Errorf("it leads to %.200q", text))
	case joined == "." || joined == ".." || strings.HasPrefix(joined, "../"):
		return "", refuse(Link, name, fmt.Errorf("it leads out of the archive, to %.200q", text))
	}
	clean, err := w.limits.Names.Clean(joined)
	if err != nil {
		return "", refuse(Link, name, fmt.Errorf("it leads to %.200q: %w", text, err))
	}
	return clean, nil
}

// symlinks copies the files to which symbolic links lead, through other links too. Links to directories, to nothing and
// in a circle are refused.
func (w *writer) symlinks() error {
	next := map[string]string{}
	for _, l := range w.links {
		if clean, err := w.limits.Names.Clean(l.name); err == nil {
			next[clean] = l.target
		}
	}
	for _, l := range w.links {
		for range maxChain {
			further, more := next[l.target]
			if !more {
				break
			}
			l.target = further
		}
		if err := w.copyOf(l); err != nil {
			return err
		}
	}
	return nil
}

// copyOf makes a copy of a file of the archive under the name of a link.
func (w *writer) copyOf(l link) (err error) {
	info, err := w.root.Lstat(l.target)
	if err != nil || !info.Mode().IsRegular() {
		return refuse(Link, l.name, fmt.Errorf("it leads to %.200q, which is no file of the archive", l.target))
	}
	f, err := w.root.Open(l.target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w.report.Links++
	return w.file(l.name, f, info.Size(), w.packed)
}
