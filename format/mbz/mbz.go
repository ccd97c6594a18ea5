// Package mbz checks Moodle backups (files *.mbz), so that a damaged or truncated one is never stored.
//
// A backup is a tar file compressed by gzip, or a zip file from an older Moodle. It contains moodle_backup.xml with
// facts of the backup, files.xml with the SHA-1 of each file, and the files under files/HH/HASH. A tar file begins with
// an index of its entries.
package mbz

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"compress/gzip"
	"crypto/sha1"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"
)

// Backup has the facts that a backup states of itself.
type Backup struct {
	ID       string // 32 hexadecimal digits, unique
	Type     string // "course", "section" or "activity"
	CourseID int
	Modules  []int // ids of the course modules (cmid) of its activities
	Release  string
	Root     string // address of the Moodle
	Created  time.Time
	Users    bool // user data are included
	Entries  int
	Files    int // distinct contents
	External int // files whose content is elsewhere, and is not in the backup
}

// Damage lists what is wrong with a backup.
type Damage []string

// Error names the first ten faults.
func (d Damage) Error() string {
	if rest := len(d) - 10; rest > 0 {
		return fmt.Sprintf("damaged backup: %s; and %d more", strings.Join(d[:10], "; "), rest)
	}
	return "damaged backup: " + strings.Join(d, "; ")
}

const (
	indexName = ".ARCHIVE_INDEX"
	factsName = "moodle_backup.xml"
	filesName = "files.xml"
	maxFaults = 1000
)

var emptySum = hex.EncodeToString(sha1.New().Sum(nil))

// Check reads a backup to its end and verifies the index, the facts and every content. Its error is a [Damage], or the
// error of the reader.
func Check(r io.ReaderAt, size int64) (*Backup, error) {
	c := &check{sizes: map[string]int64{}, stored: map[string]int64{}}
	source := &reader{r: r}
	var magic [2]byte
	if _, err := r.ReadAt(magic[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var err error
	switch string(magic[:]) {
	case "\x1f\x8b":
		err = c.tar(io.NewSectionReader(source, 0, size))
	case "PK":
		err = c.zip(source, size)
	default:
		err = errors.New("it is neither a gzip nor a zip file")
	}
	switch {
	case source.err != nil: // a fault of the disk is not damage
		return nil, source.err
	case err != nil:
		return nil, append(c.faults, err.Error())
	}
	c.finish()
	if len(c.faults) > 0 {
		return nil, c.faults
	}
	return &c.backup, nil
}

type check struct {
	backup  Backup
	faults  Damage
	sizes   map[string]int64 // of the entries, directories with -1
	stored  map[string]int64 // by SHA-1
	listed  []content        // by files.xml
	index   []entry
	count   int // by the index
	indexed bool
	facts   bool
	files   bool
}

type entry struct {
	name string
	dir  bool
	size int64
}

func (c *check) fault(format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, fmt.Sprintf(format, args...))
	}
}

func (c *check) tar(r io.Reader) error {
	zipped, err := gzip.NewReader(bufio.NewReaderSize(r, 1<<16))
	if err != nil {
		return err
	}
	archive := tar.NewReader(zipped)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("after %d entries: %w", len(c.sizes), err)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			c.sizes[path.Clean(h.Name)] = -1
		case tar.TypeReg:
			if err := c.entry(h.Name, archive); err != nil {
				return fmt.Errorf("%s: %w", h.Name, err)
			}
		default:
			c.fault("%s is neither a file nor a directory", h.Name)
		}
	}
	if _, err := io.Copy(io.Discard, zipped); err != nil { // to the checksum of gzip
		return err
	}
	if !c.indexed {
		c.fault("it has no index (%s)", indexName)
	}
	return nil
}

func (c *check) zip(r io.ReaderAt, size int64) error {
	archive, err := zip.NewReader(r, size)
	if err != nil {
		return err
	}
	for _, f := range archive.File {
		if strings.HasSuffix(f.Name, "/") {
			c.sizes[path.Clean(f.Name)] = -1
			continue
		}
		body, err := f.Open()
		if err == nil {
			err = c.entry(f.Name, body)
			body.Close()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// entry reads one file of the archive. Its errors are of the reader or of the file's format.
func (c *check) entry(name string, r io.Reader) error {
	name = path.Clean(name)
	if _, again := c.sizes[name]; again {
		c.fault("%s is there twice", name)
	}
	counted := &counter{r: r}
	sum := sha1.New()
	var err error
	switch body := io.TeeReader(counted, sum); {
	case name == indexName:
		err = c.readIndex(body)
	case name == factsName:
		err = c.readFacts(body)
	case name == filesName:
		err = c.readFiles(body)
	case strings.HasPrefix(name, "files/"):
		_, err = io.Copy(io.Discard, body)
		if got := hex.EncodeToString(sum.Sum(nil)); err == nil && got != path.Base(name) {
			c.fault("%s has other content: its SHA-1 is %s", name, got)
		}
		c.stored[path.Base(name)] = counted.n
	}
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, counted); err != nil {
		return err
	}
	if name != indexName {
		c.sizes[name] = counted.n
	}
	return nil
}

// readIndex reads lines of path, type (d or f), size and time, after a line with their number.
func (c *check) readIndex(r io.Reader) error {
	c.indexed = true
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for first := true; lines.Scan(); first = false {
		if first {
			_, after, ok := strings.Cut(lines.Text(), "Count: ")
			n, err := strconv.Atoi(strings.TrimSpace(after))
			if !ok || err != nil {
				c.fault("the index begins with %q", lines.Text())
			}
			c.count = n
			continue
		}
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) < 3 {
			c.fault("the index has the line %q", lines.Text())
			continue
		}
		size, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			c.fault("the index gives %s the size %q", fields[0], fields[2])
		}
		c.index = append(c.index, entry{name: path.Clean(fields[0]), dir: fields[1] == "d", size: size})
	}
	return lines.Err()
}

func (c *check) readFacts(r io.Reader) error {
	c.facts = true
	var doc struct {
		Release string `xml:"information>moodle_release"`
		Date    int64  `xml:"information>backup_date"`
		Root    string `xml:"information>original_wwwroot"`
		Course  int    `xml:"information>original_course_id"`
		Details []struct {
			ID   string `xml:"backup_id,attr"`
			Type string `xml:"type"`
		} `xml:"information>details>detail"`
		Modules []struct {
			ID int `xml:"moduleid"`
		} `xml:"information>contents>activities>activity"`
		Settings []struct {
			Level string `xml:"level"`
			Name  string `xml:"name"`
			Value string `xml:"value"`
		} `xml:"information>settings>setting"`
	}
	if err := xml.NewDecoder(r).Decode(&doc); err != nil {
		return err
	}
	b := &c.backup
	b.Release, b.Root, b.CourseID, b.Created = doc.Release, doc.Root, doc.Course, time.Unix(doc.Date, 0).UTC()
	if len(doc.Details) > 0 {
		b.ID, b.Type = doc.Details[0].ID, doc.Details[0].Type
	}
	for _, m := range doc.Modules {
		b.Modules = append(b.Modules, m.ID)
	}
	for _, s := range doc.Settings {
		if s.Level == "root" && s.Name == "users" {
			b.Users = s.Value == "1"
		}
	}
	if b.ID == "" || b.Type == "" || b.CourseID == 0 {
		c.fault("%s does not state the backup's id, type and course", factsName)
	}
	return nil
}

// content is one file that files.xml lists.
type content struct {
	Sum       string `xml:"contenthash"`
	Name      string `xml:"filename"`
	Size      int64  `xml:"filesize"`
	Reference string `xml:"reference"`
}

func (c *check) readFiles(r io.Reader) error {
	c.files = true
	for dec := xml.NewDecoder(r); ; {
		t, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if s, ok := t.(xml.StartElement); ok && s.Name.Local == "file" {
			var f content
			if err := dec.DecodeElement(&f, &s); err != nil {
				return err
			}
			c.listed = append(c.listed, f)
		}
	}
}

// finish compares what the parts state of each other.
func (c *check) finish() {
	c.backup.Entries, c.backup.Files = len(c.sizes), len(c.stored)
	if !c.facts {
		c.fault("it has no %s", factsName)
	}
	if !c.files {
		c.fault("it has no %s", filesName)
	}
	if c.indexed && (c.count != len(c.index) || c.count != len(c.sizes)) {
		c.fault("the index counts %d entries and lists %d, and the archive has %d", c.count, len(c.index), len(c.sizes))
	}
	for _, e := range c.index {
		switch size, ok := c.sizes[e.name]; {
		case !ok:
			c.fault("%s is missing", e.name)
		case !e.dir && size != e.size:
			c.fault("%s has %d bytes, not %d", e.name, size, e.size)
		}
	}
	for _, f := range c.listed {
		switch size, ok := c.stored[f.Sum]; {
		case ok && size != f.Size:
			c.fault("%s (%s) has %d bytes, not %d", f.Name, f.Sum, size, f.Size)
		case ok, f.Sum == emptySum && f.Size == 0: // directories, which are not stored, have the sum of no bytes
		case f.Reference != "" && f.Reference != "$@NULL@$":
			c.backup.External++
		default:
			c.fault("%s (%s) is missing", f.Name, f.Sum)
		}
	}
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// reader keeps the error of what it reads.
type reader struct {
	r   io.ReaderAt
	err error
}

func (r *reader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.r.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}
