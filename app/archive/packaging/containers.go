package packaging

import (
	"archive/tar"
	"archive/zip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"path"
)

// member is a file of a container.
type member struct {
	name string // with the folder of the package
	size int64
	crc  uint32 // for a ZIP file
}

// containers are the products that are being written in one pass.
type containers struct {
	tar   *tar.Writer // nil: no product is made of it
	zip   *zip.Writer
	gzip  *gzipWriter
	parts map[Container]*part
	kinds []Container
}

// part is an unfinished product.
type part struct {
	file
	name string
	size int64
	sums [2]hash.Hash // SHA-256 and SHA-512
	all  *fan         // of file and sums
}

// newPart creates the file of a product.
func newPart(d disk, name string) (*part, error) {
	f, err := d.Create(name)
	if err != nil {
		return nil, err
	}
	p := &part{file: f, name: name, sums: [2]hash.Hash{sha256.New(), sha512.New()}}
	p.all = newFan(p.sums[1], p.sums[0], writerFunc(p.write))
	return p, nil
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func (p *part) write(b []byte) (int, error) {
	n, err := p.file.Write(b)
	p.size += int64(n)
	return n, err
}

// Write implements [io.Writer].
func (p *part) Write(b []byte) (int, error) { return p.all.Write(b) }

// finish writes the rest of the file, syncs and closes it. After an earlier error it only closes it.
func (p *part) finish(err error) error {
	if err != nil {
		p.all.abandon()
	} else if err = p.all.close(); err == nil {
		err = p.Sync()
	}
	return errors.Join(err, p.Close())
}

// product is the finished file.
func (p *part) product() Product {
	return Product{Name: path.Base(p.name), Size: p.size, SHA256: hexOf(p.sums[0]), SHA512: hexOf(p.sums[1])}
}

func hexOf(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil)) }

// open begins the products: names gives the file of each.
func open(d disk, kinds []Container, names func(Container) string) (*containers, error) {
	c := &containers{parts: map[Container]*part{}, kinds: kinds}
	for _, kind := range kinds {
		if kind == Directory {
			continue
		}
		p, err := newPart(d, names(kind))
		if err != nil {
			c.abandon()
			return nil, err
		}
		c.parts[kind] = p
	}
	var streams []io.Writer // of the tar's bytes
	if p := c.parts[Tar]; p != nil {
		streams = append(streams, p)
	}
	if p := c.parts[TarGzip]; p != nil {
		c.gzip = newGzip(p)
		streams = append(streams, c.gzip)
	}
	if len(streams) > 0 {
		c.tar = tar.NewWriter(io.MultiWriter(streams...))
	}
	if p := c.parts[Zip]; p != nil {
		c.zip = zip.NewWriter(p)
	}
	return c, nil
}

// begin writes the header of a file to each product and returns the writers of its content.
func (c *containers) begin(m member) (writers []io.Writer, err error) {
	if c.tar != nil {
		err = c.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: m.name, Size: m.size, Mode: 0o644,
			ModTime: epoch, Format: tar.FormatPAX})
		writers = append(writers, c.tar)
	}
	if err == nil && c.zip != nil {
		var w io.Writer
		w, err = c.zip.CreateRaw(zipHeader(m))
		writers = append(writers, w)
	}
	return writers, err
}

// Fields of a ZIP header (APPNOTE 4.4).
const (
	flagDescriptor = 0x8      // sizes and CRC follow the content
	flagUTF8       = 0x800    // the name is UTF-8
	madeByUnix     = 3 << 8   // the mode is that of Unix
	dosEpoch       = 1 | 1<<5 // 1980-01-01
	version20      = 20
	version45      = 45 // supports zip64
	limit32        = 1<<32 - 1
)

// zipHeader is the header of a file that is stored as it is. Size and CRC are before the content, since readers of
// streams need them there; only files of 4 GiB and more have them after it.
func zipHeader(m member) *zip.FileHeader {
	h := &zip.FileHeader{Name: m.name, Method: zip.Store, Flags: flagUTF8, CreatorVersion: madeByUnix | version20,
		ReaderVersion: version20, CRC32: m.crc, CompressedSize64: uint64(m.size), UncompressedSize64: uint64(m.size)}
	h.SetMode(0o644)
	//lint:ignore SA1019 CreateRaw writes this one and does not derive it from Modified
	h.ModifiedDate = dosEpoch
	if m.size >= limit32 {
		h.Flags |= flagDescriptor
		h.CreatorVersion, h.ReaderVersion = madeByUnix|version45, version45
	}
	return h
}

// finish completes the products and syncs them.
func (c *containers) finish() (err error) {
	if c.tar != nil {
		err = c.tar.Close()
	}
	if err == nil && c.zip != nil {
		err = c.zip.Close()
	}
	if err == nil && c.gzip != nil {
		err = c.gzip.Close()
	}
	for _, kind := range c.kinds {
		if p := c.parts[kind]; p != nil {
			err = p.finish(err)
		}
	}
	return err
}

// abandon closes unfinished products.
func (c *containers) abandon() {
	for _, p := range c.parts {
		p.all.abandon()
		_ = p.Close() // the files are removed
	}
}

// ZipHeader is the header of a file that a ZIP file stores as it is, with the time and mode of all files: the same
// files give the same bytes. crc is the CRC-32 of the content (IEEE).
func ZipHeader(name string, size int64, crc uint32) *zip.FileHeader {
	return zipHeader(member{name: name, size: size, crc: crc})
}
