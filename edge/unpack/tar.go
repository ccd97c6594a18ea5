package unpack

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

const block = 512

// tar unpacks a tar stream. The end must be marked by a block of zeros, without which a truncated archive would pass
// as a shorter one, and nothing but zeros may follow.
func (w *writer) tar(stream io.Reader) error {
	in := &tarInput{w: w, r: stream}
	tr := tar.NewReader(in)
	var end int64 // offset of the next header
	for headers := 0; ; headers++ {
		hdr, err := tr.Next()
		if err == io.EOF {
			if err := w.tarEnd(in, end); err != nil {
				return err
			}
			return w.symlinks()
		}
		if errors.Is(err, tar.ErrInsecurePath) && hdr != nil {
			return refuse(Name, hdr.Name, err)
		}
		if err != nil {
			return damaged("", err)
		}
		if headers >= 2*w.limits.Files {
			return refuse(TooMany, "", nil)
		}
		if err := w.tarEntry(tr, hdr); err != nil {
			return err
		}
		end = (in.n + block - 1) / block * block
	}
}

func (w *writer) tarEntry(tr *tar.Reader, hdr *tar.Header) error {
	if rule := tarRule(hdr); rule != "" {
		if isSparse(hdr) {
			return refuse(rule, hdr.Name, errors.New("sparse: make the archive without the option -S of tar"))
		}
		return refuse(rule, hdr.Name, fmt.Errorf("type %q", hdr.Typeflag))
	}
	switch hdr.Typeflag {
	case tar.TypeLink, tar.TypeSymlink:
		return w.link(hdr)
	case tar.TypeXGlobalHeader, typeLabel:
		return nil // a comment, in which git writes its commit; or the name of the archive
	case tar.TypeDir:
		if name := strings.TrimSuffix(hdr.Name, "/"); name != "." {
			return w.dir(name)
		}
		return nil
	}
	return w.file(hdr.Name, tr, hdr.Size, w.packed)
}

// typeLabel is the type of an entry that has the name of the archive (GNU tar, --label).
const typeLabel = 'V'

// isSparse reports whether an entry is a file that was stored without its ranges of zeros.
func isSparse(hdr *tar.Header) bool {
	for key := range hdr.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return hdr.Typeflag == tar.TypeGNUSparse
}

func tarRule(hdr *tar.Header) Rule {
	switch hdr.Typeflag {
	case tar.TypeXGlobalHeader:
		for key := range hdr.PAXRecords {
			if key != "comment" {
				return Special // a name or size for all later entries
			}
		}
		return ""
	case tar.TypeReg:
		if hdr.Mode&0o6000 != 0 {
			return SetID
		}
		if isSparse(hdr) {
			return Special
		}
		return ""
	case typeLabel:
		if hdr.Size != 0 || hdr.Linkname != "" {
			return Special
		}
		return ""
	case tar.TypeDir, tar.TypeLink, tar.TypeSymlink:
		if hdr.Size != 0 {
			return Special
		}
		return ""
	}
	return Special
}

// tarEnd checks the bytes after the last entry, and reads to the end of the stream so that the checksum of a
// compressed one is verified.
func (w *writer) tarEnd(in *tarInput, end int64) error {
	if in.n < end+block || in.last != [block]byte{} {
		return refuse(Corrupt, "", fmt.Errorf("no end of archive: %w", io.ErrUnexpectedEOF))
	}
	buf := w.buffer[:]
	for {
		n, err := in.Read(buf)
		for _, b := range buf[:n] {
			if b != 0 {
				return refuse(Trailing, "", nil)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return damaged("", err)
		}
	}
}

// tarInput counts the unpacked stream, headers and padding included, and keeps its last block.
type tarInput struct {
	w    *writer
	r    io.Reader
	n    int64
	last [block]byte
}

func (t *tarInput) Read(p []byte) (int, error) {
	if t.w.ctx.Err() != nil {
		return 0, refuse(Cancelled, "", context.Cause(t.w.ctx))
	}
	n, err := t.r.Read(p)
	t.n += int64(n)
	if n >= block {
		copy(t.last[:], p[n-block:n])
	} else {
		copy(t.last[:], t.last[n:])
		copy(t.last[block-n:], p[:n])
	}
	if t.w.steep(t.n, t.w.packed) {
		return n, refuse(Ratio, "", fmt.Errorf("more than %d to 1", t.w.limits.Ratio))
	}
	return n, err
}
