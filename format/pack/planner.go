package pack

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/stagepost/stagepost/internal/durable"
)

// The files of a plan.
const (
	planFile     = "plan.json"
	indexFile    = "index"    // a record of each hole
	literalsFile = "literals" // all bytes that are not content
	sourcesFile  = "sources"  // a line of JSON for each hole: name and source
)

// Summary describes a planned archive.
type Summary struct {
	Format Format `json:"format"`
	Size   int64  `json:"size"` // of the archive, in bytes
	// SHA-256, hex, over everything that determines the bytes: the same entries have the same digest
	Digest   string `json:"digest"`
	Entries  int64  `json:"entries"`  // files
	Holes    int64  `json:"holes"`    // files that are not empty
	Literals int64  `json:"literals"` // bytes that are not content
}

// source is a line in the file of sources.
type source struct {
	Name   string `json:"name"`
	Source string `json:"source"`
}

// Planner computes an archive. It is for one goroutine, and must be closed or abandoned.
type Planner struct {
	summary Summary
	layout  layout
	rec     *recorder
	digest  hash.Hash // of the holes
	index   *bufio.Writer
	sources *bufio.Writer
	line    int64 // length of the file of sources
	files   []*os.File
	dir     *os.Root
}

// Create begins the plan of an archive in an empty directory. The plan is complete when Close has returned.
func Create(dir *os.Root, f Format) (*Planner, error) {
	p := &Planner{summary: Summary{Format: f}, digest: sha256.New(), dir: dir}
	var failed error
	create := func(name string) *bufio.Writer {
		file, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
		if err != nil {
			failed = errors.Join(failed, err)
			return nil
		}
		p.files = append(p.files, file)
		return bufio.NewWriterSize(file, 64<<10)
	}
	p.index, p.sources = create(indexFile), create(sourcesFile)
	p.rec = &recorder{literals: create(literalsFile), digest: sha256.New()}
	if failed != nil {
		return nil, errors.Join(failed, p.Abandon())
	}
	var err error
	if p.layout, err = newLayout(f, p.rec); err != nil {
		return nil, errors.Join(err, p.Abandon())
	}
	return p, nil
}

// Abandon closes the files of an unfinished plan. The written files remain in the directory.
func (p *Planner) Abandon() error {
	var errs []error
	for _, f := range p.files {
		errs = append(errs, f.Close())
	}
	p.files = nil
	return errors.Join(errs...)
}

// Add adds a file to the end of the archive.
func (p *Planner) Add(e Entry) error {
	if err := e.check(); err != nil {
		return err
	}
	content, err := p.layout.begin(&e)
	if err != nil {
		return fmt.Errorf("%w: %.200q: %w", ErrEntry, e.Name, err)
	}
	p.summary.Entries++
	h := hole{offset: p.rec.total, size: e.Size, before: p.rec.holes, source: p.line, crc: e.CRC32}
	if err := p.punch(content, e.Size); err != nil {
		return err
	}
	if err := p.layout.end(); err != nil || e.Size == 0 {
		return err
	}
	line, err := json.Marshal(source{e.Name, e.Source})
	if err != nil {
		return err
	}
	h.line = uint32(len(line))
	p.line += int64(len(line)) + 1
	p.summary.Holes++
	fmt.Fprintf(p.digest, "%d %d %d %s\n", h.offset, h.size, len(e.Digest), e.Digest) // a hash returns no error
	_, err = p.sources.Write(append(line, '\n'))
	if err == nil {
		_, err = p.index.Write(h.append(nil))
	}
	return err
}

// blank replaces content: only its length is used.
var blank [1 << 20]byte

// punch makes the writer of the format count n bytes of content.
func (p *Planner) punch(content io.Writer, n int64) error {
	p.rec.content = true
	defer func() { p.rec.content = false }()
	for n > 0 {
		before := p.rec.holes
		if _, err := content.Write(blank[:min(n, int64(len(blank)))]); err != nil {
			return err
		}
		if err := p.layout.drain(); err != nil {
			return err
		}
		n -= p.rec.holes - before
	}
	return nil
}

// Close writes the end of the archive and syncs the plan to disk. Open accepts only a plan that Close has finished.
func (p *Planner) Close() (Summary, error) {
	err := p.layout.close()
	for _, w := range []*bufio.Writer{p.index, p.sources, p.rec.literals} {
		err = errors.Join(err, w.Flush())
	}
	for _, f := range p.files {
		err = errors.Join(err, f.Sync())
	}
	if err = errors.Join(err, p.Abandon()); err != nil {
		return Summary{}, err
	}
	p.summary.Size, p.summary.Literals = p.rec.total, p.rec.total-p.rec.holes
	all := sha256.New()
	fmt.Fprintf(all, "%s %d %x %x", p.summary.Format, p.summary.Size, p.rec.digest.Sum(nil), p.digest.Sum(nil))
	p.summary.Digest = hex.EncodeToString(all.Sum(nil))
	return p.summary, p.write()
}

// write makes the plan valid: its last file appears atomically.
func (p *Planner) write() error {
	text, err := json.Marshal(p.summary)
	if err != nil {
		return err
	}
	return durable.File{Root: p.dir, Name: planFile, Mode: 0o640}.Write(durable.Text(append(text, '\n')))
}

// recorder receives the output of a format's writer: it keeps literal bytes and counts content.
type recorder struct {
	literals *bufio.Writer
	digest   hash.Hash // of the literals
	total    int64     // bytes of the archive so far
	holes    int64     // of these, content
	content  bool      // the next bytes are content
}

func (r *recorder) Write(b []byte) (int, error) {
	r.total += int64(len(b))
	if r.content {
		r.holes += int64(len(b))
		return len(b), nil
	}
	r.digest.Write(b)
	return r.literals.Write(b)
}
