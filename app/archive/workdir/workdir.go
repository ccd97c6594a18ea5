// Package workdir has the working directories of archive jobs. A directory has the files that a source gave, and a
// ledger for each unit, which is an activity, the course, or the backups.
//
//	content/UNIT/NAME   files; a unit may have several path elements
//	ledger/UNIT.jsonl   a line for each complete file, and one for each complete item
//	people/UNIT.json    the people whose data the unit contains
//	lock                of the attempt that works here
//
// A file is in the ledger when it is complete. Lines are only appended, and one that a crash cut off does not count. An
// attempt that goes on after another one reads the files of complete items again and fetches the items whose files
// differ ([Unit.Check]); power cuts can leave a line without its file.
package workdir

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/internal/dirlock"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// Names in a working directory.
const (
	ContentName = "content"
	ledgerName  = "ledger"
	peopleName  = "people"
	lockName    = "lock"
)

// Dir is the working directory of a job while one attempt uses it.
type Dir struct {
	*os.Root
	lock *os.File
}

// Open opens the working directory of a job below base for the attempt of an epoch, and makes it if there is none.
// Errors: [dirlock.Err] while another attempt works in it, kind Stale after a later one has.
func Open(base string, id job.ID, epoch int64) (*Dir, error) {
	dir := filepath.Join(base, string(id))
	if err := durable.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	lock, err := dirlock.Lock(root, lockName, id, epoch)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &Dir{Root: root, lock: lock}, nil
}

// Close ends the use of the directory.
func (d *Dir) Close() error { return errors.Join(d.lock.Close(), d.Root.Close()) }

// Clear removes everything but the lock.
func (d *Dir) Clear() error {
	entries, err := fs.ReadDir(d.FS(), ".")
	for _, e := range entries {
		if e.Name() != lockName {
			err = errors.Join(err, d.RemoveAll(e.Name()))
		}
	}
	return errors.Join(err, durable.SyncIn(d.Root, "."))
}

// Remove removes the working directory of a job that no attempt works on.
func Remove(base string, id job.ID) error {
	if err := os.RemoveAll(filepath.Join(base, string(id))); err != nil {
		return err
	}
	err := durable.Sync(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// File is a complete file of a unit.
type File struct {
	Name   string        `json:"name"` // below the content directory, with slashes
	Asked  string        `json:"asked,omitempty"`
	Item   string        `json:"item,omitempty"`
	Size   int64         `json:"size"`
	SHA256 string        `json:"sha256"` // hexadecimal
	SHA512 string        `json:"sha512"`
	Origin source.Origin `json:"origin,omitzero"`
}

// line is a line of a ledger: a file, or the key of a complete item.
type line struct {
	*File
	Done *string `json:"done,omitempty"`
}

// Unit is a part of the content with a ledger. Its methods may be called concurrently.
type Unit struct {
	dir  *Dir
	name string
	log  *os.File

	mu     sync.Mutex // guards the rest
	files  map[string]File
	folded map[string]string          // item of each name in lower case
	items  map[string]map[string]bool // names of the files of each item
	done   map[string]bool
}

// Unit opens a unit for writing.
func (d *Dir) Unit(name string) (*Unit, error) {
	u := &Unit{dir: d, name: name, files: map[string]File{}, folded: map[string]string{},
		items: map[string]map[string]bool{}, done: map[string]bool{}}
	if err := d.MkdirAll(path.Join(ContentName, name), 0o750); err != nil {
		return nil, err
	}
	ledger := ledgerOf(name)
	if err := d.MkdirAll(path.Dir(ledger), 0o750); err != nil {
		return nil, err
	}
	if err := u.read(ledger); err != nil {
		return nil, err
	}
	var err error
	u.log, err = d.OpenFile(ledger, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	return u, err
}

func ledgerOf(unit string) string { return beside(ledgerName, unit, ".jsonl") }

// beside names a file about a unit.
func beside(folder, unit, ending string) string {
	return path.Join(folder, strings.ReplaceAll(unit, "/", "_")+ending)
}

// SetPeople records whose data the unit contains.
func (u *Unit) SetPeople(people []source.Person) error {
	text, err := json.Marshal(people)
	if err != nil {
		return err
	}
	if err := u.dir.MkdirAll(peopleName, 0o750); err != nil {
		return err
	}
	return durable.ReplaceIn(u.dir.Root, beside(peopleName, u.name, ".json"), text)
}

// People gives what [Unit.SetPeople] recorded.
func (u *Unit) People() ([]source.Person, error) {
	text, err := u.dir.ReadFile(beside(peopleName, u.name, ".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var people []source.Person
	return people, json.Unmarshal(text, &people)
}

// read reads the ledger of earlier attempts and drops a last line that a crash cut off, so that the next line is not
// appended to it.
func (u *Unit) read(ledger string) error {
	text, err := u.dir.ReadFile(ledger)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	whole := text[:strings.LastIndexByte(string(text), '\n')+1]
	for one := range strings.Lines(string(whole)) {
		var l line
		if err := json.Unmarshal([]byte(one), &l); err != nil {
			continue // a power cut left it: its file is fetched again
		}
		switch {
		case l.Done != nil:
			u.done[*l.Done] = true
		case l.File != nil && l.SHA256 != "":
			u.enter(*l.File)
			delete(u.done, l.Item)
		}
	}
	if len(whole) == len(text) {
		return nil
	}
	return durable.ReplaceIn(u.dir.Root, ledger, whole)
}

// Sync makes the ledger durable. Its files are durable already.
func (u *Unit) Sync() error { return u.log.Sync() }

// Close syncs the ledger and ends the use of the unit.
func (u *Unit) Close() error { return errors.Join(u.log.Sync(), u.log.Close()) }

// Done reports whether an item is complete.
func (u *Unit) Done(item string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.done[item]
}

// Items lists the complete items in order.
func (u *Unit) Items() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.done))
}

// Finish records that an item is complete. The names of its files are durable before.
func (u *Unit) Finish(item string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	dirs := map[string]bool{}
	for name := range u.items[item] {
		for dir := path.Dir(name); strings.HasPrefix(dir, u.name); dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	for dir := range dirs {
		if err := durable.SyncIn(u.dir.Root, path.Join(ContentName, dir)); err != nil {
			return err
		}
	}
	u.done[item] = true
	return u.append(line{Done: &item})
}

// Reset states that no item is complete: the source has changed.
func (u *Unit) Reset() error {
	u.mu.Lock()
	clear(u.done)
	u.mu.Unlock()
	return u.rewrite()
}

// enter records a file. The caller has the lock, or is alone.
func (u *Unit) enter(f File) {
	u.files[f.Name] = f
	u.folded[strings.ToLower(f.Name)] = f.Item
	if u.items[f.Item] == nil {
		u.items[f.Item] = map[string]bool{}
	}
	u.items[f.Item][f.Name] = true
}

// append writes a line. The caller has the lock.
func (u *Unit) append(l line) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, err = u.log.Write(append(text, '\n'))
	return err
}

// Files lists the files of the unit in order of their names.
func (u *Unit) Files() []File {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := make([]File, 0, len(u.files))
	for _, f := range u.files {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Check reads the files of complete items. Items with a missing or different file count as not complete from then on.
func (u *Unit) Check(ctx context.Context) error {
	for _, f := range u.Files() {
		if !u.Done(f.Item) {
			continue
		}
		err := u.dir.Verify(ctx, f)
		if errors.Is(err, ErrDamaged) {
			u.mu.Lock()
			delete(u.done, f.Item)
			u.mu.Unlock()
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Prune removes the files of items that the plan no longer has, such as an attempt that was deleted in the source.
func (u *Unit) Prune(planned func(item string) bool) error {
	for _, f := range u.Files() {
		if planned(f.Item) {
			continue
		}
		if err := u.dir.RemoveAll(path.Join(ContentName, f.Name)); err != nil {
			return err
		}
		u.mu.Lock()
		delete(u.files, f.Name)
		delete(u.folded, strings.ToLower(f.Name))
		delete(u.items[f.Item], f.Name)
		delete(u.done, f.Item)
		u.mu.Unlock()
	}
	return u.rewrite()
}

// rewrite writes the ledger without what no longer counts.
func (u *Unit) rewrite() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	var text []byte
	for _, f := range u.files {
		one, err := json.Marshal(line{File: &f})
		if err != nil {
			return err
		}
		text = append(append(text, one...), '\n')
	}
	for item, done := range u.done {
		if one, err := json.Marshal(line{Done: &item}); err == nil && done {
			text = append(append(text, one...), '\n')
		}
	}
	if err := u.log.Close(); err != nil {
		return err
	}
	if err := durable.ReplaceIn(u.dir.Root, ledgerOf(u.name), text); err != nil {
		return err
	}
	var err error
	u.log, err = u.dir.OpenFile(ledgerOf(u.name), os.O_WRONLY|os.O_APPEND, 0o640)
	return err
}

// ErrDamaged reports that a file is missing or not what its ledger states.
var ErrDamaged = errors.New("the file is not what was fetched")

// Verify reads a file and compares it with the ledger. A difference is [ErrDamaged].
func (d *Dir) Verify(ctx context.Context, f File) error {
	r, err := d.Open(path.Join(ContentName, f.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w: it is missing", f.Name, ErrDamaged)
	}
	if err != nil {
		return err
	}
	defer r.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, &reader{ctx, r})
	switch {
	case err != nil:
		return err
	case n != f.Size:
		return fmt.Errorf("%s: %w: it has %d bytes, not %d", f.Name, ErrDamaged, n, f.Size)
	case hex.EncodeToString(sum.Sum(nil)) != f.SHA256:
		return fmt.Errorf("%s: %w: its SHA-256 differs", f.Name, ErrDamaged)
	}
	return nil
}

// reader ends when its context does.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r *reader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}

// Item returns the receiver of an item's files. Progress is called with each report of the source; it may be nil.
func (u *Unit) Item(item string, progress func(done, total int64, unit string)) source.Out {
	return &out{unit: u, item: item, progress: progress}
}

type out struct {
	unit     *Unit
	item     string
	progress func(done, total int64, unit string)
}

// Progress is part of [source.Out].
func (o *out) Progress(done, total int64, unit string) {
	if o.progress != nil {
		o.progress(done, total, unit)
	}
}

// Put is part of [source.Out]. A name that another item of the unit has gets a number.
func (o *out) Put(ctx context.Context, name string, origin *source.Origin, fill func(io.Writer) error) error {
	if !filepath.IsLocal(filepath.FromSlash(name)) || path.Clean(name) != name {
		return fmt.Errorf("the source names a file %q, which is not a relative path", name)
	}
	u := o.unit
	f := File{Name: u.reserve(path.Join(u.name, name), o.item), Item: o.item}
	if f.Name != path.Join(u.name, name) {
		f.Asked = name
	}
	target := path.Join(ContentName, f.Name)
	if err := u.dir.MkdirAll(path.Dir(target), 0o750); err != nil {
		return err
	}
	one, two := sha256.New(), sha512.New()
	err := durable.File{Root: u.dir.Root, Name: target, Mode: 0o640}.Write(func(file *os.File) error {
		w := bufio.NewWriterSize(file, 64<<10)
		count := &counter{w: io.MultiWriter(w, one, two), ctx: ctx}
		if err := fill(count); err != nil {
			return err
		}
		f.Size = count.n
		return w.Flush()
	})
	if err != nil {
		return err
	}
	f.Origin = *origin
	f.SHA256, f.SHA512 = hex.EncodeToString(one.Sum(nil)), hex.EncodeToString(two.Sum(nil))
	u.mu.Lock()
	defer u.mu.Unlock()
	u.enter(f)
	return u.append(line{File: &f})
}

// reserve returns a name that no other item has: NAME, NAME-2 and so on, with the number before the extension. Names
// are compared without case, as file systems may.
func (u *Unit) reserve(name, item string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := func(name string) bool {
		owner, ok := u.folded[strings.ToLower(name)]
		return ok && owner != item
	}
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	for n := 2; taken(name); n++ {
		name = fmt.Sprintf("%s-%d%s", stem, n, ext)
	}
	u.folded[strings.ToLower(name)] = item
	return name
}

// counter counts what is written and ends when its context does.
type counter struct {
	w   io.Writer
	ctx context.Context
	n   int64
}

func (c *counter) Write(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
