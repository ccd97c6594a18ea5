package fetch

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"github.com/stagepost/stagepost/internal/durable"
)

// checkpoint is the number of bytes between two syncs, and so the greatest loss after a power failure.
const checkpoint = 64 << 20

// unrecorded is the size up to which a file has no record before its first failure, and with a set no .part file
// either: after a crash it is fetched again.
const unrecorded = 64 << 10

// version is the server's version of the bytes in a .part file. It is stored in its own file.
type version struct {
	Source       string `json:"source"` // SHA-256 of the URL: a URL may hold secrets
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"lastModified,omitempty"` // only if RFC 9110 section 8.8.2.2 counts it as strong
	Total        int64  `json:"total"`                  // bytes of the whole file, or UnknownSize
	Synced       int64  `json:"synced"`                 // bytes that were on the disk at the time of this record
}

func versionOf(source string, resp *http.Response, total int64) version {
	v := version{Source: source, ETag: resp.Header.Get("ETag"), Total: total}
	modified, err1 := http.ParseTime(resp.Header.Get("Last-Modified"))
	date, err2 := http.ParseTime(resp.Header.Get("Date"))
	if err1 == nil && err2 == nil && !modified.Add(time.Second).After(date) {
		v.LastModified = resp.Header.Get("Last-Modified")
	}
	return v
}

// validator is the value for If-Range: a strong entity tag or a strong date, otherwise "".
func (v version) validator() string {
	if v.ETag != "" && !strings.HasPrefix(v.ETag, "W/") {
		return v.ETag
	}
	return v.LastModified
}

// same reports whether a partial answer continues the version that v describes.
func (v version) same(resp *http.Response, r contentRange) bool {
	if tag := resp.Header.Get("ETag"); tag != "" && v.ETag != "" && tag != v.ETag {
		return false
	}
	return v.Total < 0 || r.total < 0 || v.Total == r.total
}

// partial is the .part file of one download and its record, or the bytes of a small one. Only one download may use a
// name at a time.
type partial struct {
	root    *os.Root
	name    string // final name
	stem    string // names of the two files without ".part" and ".part.json"
	file    *os.File
	small   bool   // there is no .part file yet; see inMemory
	bytes   []byte // of a small one
	sync    func(*os.File) error
	set     *durable.Set // syncs the file later; nil: finish does
	noted   bool         // there may be a record
	version version
	size    int64 // bytes in the file that may be kept
	kept    int64 // of these, bytes from before the running attempt
}

func (p *partial) dataName() string   { return p.stem + ".part" }
func (p *partial) recordName() string { return p.stem + ".part.json" }

// partialStem is the name itself, or a digest of it if ".part.json" would make it too long for a file system or a
// directory for unfinished files is given.
func partialStem(scratch, name string) string {
	dir, base := path.Split(name)
	sum := sha256.Sum256([]byte(name))
	switch {
	case scratch != "":
		return path.Join(scratch, hex.EncodeToString(sum[:]))
	case len(base) > 240:
		return path.Join(dir, hex.EncodeToString(sum[:]))
	}
	return name
}

// clashes reports whether name could be the unfinished file of another download.
func clashes(scratch, name string) bool {
	if scratch != "" {
		return name == scratch || strings.HasPrefix(name, scratch+"/")
	}
	return strings.HasSuffix(name, ".part") || strings.HasSuffix(name, ".part.json")
}

// openPartial opens the .part file, or creates it if there is no set. size is the number of usable bytes: all if a
// digest will check them, otherwise the synced ones; none if the record is missing, unreadable or of another URL.
func (t *transfer) openPartial() (*partial, error) {
	sum := sha256.Sum256([]byte(t.url))
	source := hex.EncodeToString(sum[:])
	digestChecks := t.want.Digest != ""
	p := &partial{root: t.root, name: t.name, stem: partialStem(t.want.Scratch, t.name), sync: t.client.sync}
	if digestChecks || t.want.Size < 0 {
		p.set = t.want.Set
	}
	err := error(fs.ErrNotExist)
	if !t.want.New {
		err = regular(p.root, p.dataName())
	}
	t.want.New = false // for the next attempt
	if errors.Is(err, fs.ErrNotExist) && p.set != nil {
		p.small, p.version = true, version{Source: source, Total: UnknownSize}
		return p, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := p.root.MkdirAll(path.Dir(p.stem), 0o750); err != nil {
		return nil, err
	}
	f, err := p.root.OpenFile(p.dataName(), os.O_RDWR|os.O_CREATE|durable.Plain, 0o640)
	if err != nil {
		return nil, err
	}
	p.file = f
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	record, err := p.root.ReadFile(p.recordName())
	p.noted = !errors.Is(err, fs.ErrNotExist)
	known := err == nil && json.Unmarshal(record, &p.version) == nil && p.version.Source == source &&
		p.version.Synced >= 0
	switch {
	case !known:
		p.version = version{Source: source, Total: UnknownSize}
	case digestChecks:
		p.size = info.Size()
	case p.version.validator() != "":
		p.size = min(info.Size(), p.version.Synced)
	}
	p.kept = p.size
	return p, nil
}

// regular returns an error if name exists and is not a regular file: a link or a pipe must never be written.
func regular(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", name)
	}
	return err
}

// hash adds the kept bytes to the digests.
func (p *partial) hash(s *sums) error {
	if p.size == 0 {
		return nil
	}
	n, err := io.Copy(s, io.NewSectionReader(p.file, 0, p.size))
	if err == nil && n != p.size {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// begin truncates the file to the kept bytes and records the version, before the first new byte is written.
func (p *partial) begin(v version) error {
	v.Synced = min(p.version.Synced, p.size)
	p.version = v
	if p.inMemory() {
		if v.Total <= unrecorded {
			p.bytes = make([]byte, 0, max(v.Total, 0))
			return nil
		}
		return p.spill()
	}
	if err := p.file.Truncate(p.size); err != nil {
		return err
	}
	if _, err := p.file.Seek(p.size, io.SeekStart); err != nil {
		return err
	}
	if !p.noted && v.Total >= 0 && v.Total <= unrecorded {
		return nil
	}
	return p.record()
}

// record stores the version. It is not replaced atomically: an incomplete record is unreadable, and then no bytes are
// kept.
func (p *partial) record() error {
	data, err := json.Marshal(p.version)
	if err != nil {
		return err
	}
	p.noted = true
	return p.root.WriteFile(p.recordName(), data, 0o640)
}

// save syncs the bytes first and then their record.
func (p *partial) save() error {
	if p.inMemory() {
		if err := p.spill(); err != nil {
			return err
		}
	}
	if err := p.sync(p.file); err != nil {
		return err
	}
	p.version.Synced = p.size
	return p.record()
}

func (p *partial) write(data []byte) error {
	if p.inMemory() {
		p.bytes = append(p.bytes, data...)
		p.size += int64(len(data))
		if p.size > unrecorded {
			return p.spill()
		}
		return nil
	}
	n, err := p.file.Write(data)
	p.size += int64(n)
	if err == nil && p.size-p.version.Synced >= checkpoint {
		err = p.save()
	}
	return err
}

// reset drops all bytes, so that the next attempt starts at the first.
func (p *partial) reset() {
	p.size, p.kept, p.bytes = 0, 0, nil
	p.version = version{Source: p.version.Source, Total: UnknownSize}
}

// finish renames the file to its final name and replaces an existing file. The file is synced before, or by the set.
func (p *partial) finish() error {
	if p.inMemory() {
		if done, err := p.finishSmall(); done || err != nil {
			return err
		}
		if err := p.spill(); err != nil {
			return err
		}
	}
	if err := p.syncFile(); err != nil {
		return err
	}
	if err := p.root.Rename(p.dataName(), p.name); err != nil {
		return err
	}
	if p.noted {
		if err := p.root.Remove(p.recordName()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if p.set != nil {
		return p.set.Dir(path.Dir(p.name))
	}
	dir, err := p.root.Open(path.Dir(p.name))
	if err != nil {
		return err
	}
	return errors.Join(p.sync(dir), dir.Close())
}

// syncFile syncs the file, or gives it to the set.
func (p *partial) syncFile() error {
	if p.set == nil {
		return p.sync(p.file)
	}
	f := p.file
	p.file = nil
	return p.set.File(f, p.size)
}

// discard removes useless bytes.
func (p *partial) discard() error {
	if p.inMemory() {
		return nil
	}
	var errs []error
	for _, name := range []string{p.dataName(), p.recordName()} {
		if err := p.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (p *partial) close() error {
	if p.file == nil { // the set has it, or it is in memory
		return nil
	}
	return p.file.Close()
}
