package packaging

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
)

// member is a file of a container.
type member struct {
	name string // with the folder of the package
	size int64
}

// containers are the products that are being written in one pass, and the digest of the package.
type containers struct {
	tar     *tar.Writer
	streams *fan      // of the tar's bytes: digest, file, compressed file
	digest  hash.Hash // of the tar
	zip     *zip.Writer
	gzip    *gzipWriter
	parts   map[Container]*part
	kinds   []Container
}

// part is an unfinished product.
type part struct {
	file
	name   string
	buffer *bufio.Writer // collects small writes
	size   int64
	sum    hash.Hash // of the product; nil for a tar, whose digest is that of the package
}

// newPart creates the file of a product.
func newPart(d disk, name string, summed bool) (*part, error) {
	f, err := d.Create(name)
	if err != nil {
		return nil, err
	}
	p := &part{file: f, name: name}
	p.buffer = bufio.NewWriterSize(writerFunc(p.write), 256<<10)
	if summed {
		p.sum = sha256.New()
	}
	return p, nil
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func (p *part) write(b []byte) (int, error) {
	n, err := p.file.Write(b)
	p.size += int64(n)
	if p.sum != nil {
		p.sum.Write(b[:n])
	}
	return n, err
}

// Write implements [io.Writer].
func (p *part) Write(b []byte) (int, error) { return p.buffer.Write(b) }

// open begins the products: names gives the file of each.
func open(d disk, kinds []Container, names func(Container) string) (*containers, error) {
	c := &containers{digest: sha256.New(), parts: map[Container]*part{}, kinds: kinds}
	for _, kind := range kinds {
		p, err := newPart(d, names(kind), kind != Tar)
		if err != nil {
			c.abandon()
			return nil, err
		}
		c.parts[kind] = p
	}
	streams := []io.Writer{bufio.NewWriterSize(c.digest, 256<<10)}
	if p := c.parts[Tar]; p != nil {
		streams = append(streams, p)
	}
	if p := c.parts[TarGzip]; p != nil {
		c.gzip = newGzip(p)
		streams = append(streams, c.gzip)
	}
	c.streams = newFan(streams...)
	c.tar = tar.NewWriter(c.streams)
	if p := c.parts[Zip]; p != nil {
		c.zip = zip.NewWriter(p)
	}
	return c, nil
}

// begin writes the header of a file to each product and returns the writers of its content.
func (c *containers) begin(m member) ([]io.Writer, error) {
	err := c.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: m.name, Size: m.size, Mode: 0o644,
		ModTime: epoch, Format: tar.FormatPAX})
	writers := []io.Writer{c.tar}
	if err == nil && c.zip != nil {
		h := &zip.FileHeader{Name: m.name, Method: zip.Store, Modified: epoch}
		h.SetMode(0o644)
		var w io.Writer
		w, err = c.zip.CreateHeader(h)
		writers = append(writers, w)
	}
	return writers, err
}

// finish completes the products and syncs them. It returns the digest of the package.
func (c *containers) finish() (digest string, err error) {
	err = c.tar.Close()
	if err == nil && c.zip != nil {
		err = c.zip.Close()
	}
	if err == nil {
		err = c.streams.first.(*bufio.Writer).Flush()
	}
	if err == nil && c.gzip != nil {
		err = c.gzip.Close()
	}
	c.streams.close()
	for _, kind := range c.kinds {
		p := c.parts[kind]
		if err == nil {
			err = p.buffer.Flush()
		}
		if err == nil {
			err = p.Sync()
		}
		err = errors.Join(err, p.Close())
	}
	return hex.EncodeToString(c.digest.Sum(nil)), err
}

// abandon closes unfinished products.
func (c *containers) abandon() {
	if c.streams != nil {
		c.streams.close()
	}
	for _, p := range c.parts {
		_ = p.Close() // the files are removed
	}
}
