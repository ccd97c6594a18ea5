package ocfl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// registeredExtensions are the extensions of https://ocfl.github.io/extensions/.
var registeredExtensions = []string{
	"0001-digest-algorithms", "0002-flat-direct-storage-layout", "0003-hash-and-id-n-tuple-storage-layout",
	"0004-hashed-n-tuple-storage-layout", "0005-mutable-head", "0006-flat-omit-prefix-storage-layout",
	"0007-n-tuple-omit-prefix-storage-layout", "0008-schema-registry", "0009-digest-algorithms",
	"0010-differential-n-tuple-omit-prefix-storage-layout", "0011-direct-clean-path-layout", "initial",
}

// Validate reads a whole storage root, every byte of every object, and reports violations of OCFL 1.1 (or 1.0 where
// that is declared). The error reports what stopped the validation: the context, or the directory itself.
func Validate(ctx context.Context, dir string) (*Report, error) {
	d, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("validate: %w", err)
	}
	defer d.Close()
	c := &rootCheck{dir: d, report: &Report{}, ids: map[string]string{}, buf: make([]byte, copyBuffer)}
	if err := c.run(ctx); err != nil {
		return c.report, fmt.Errorf("validate: %w", err)
	}
	return c.report, nil
}

// ValidateObject reads one object with every byte of its content.
func (r *Root) ValidateObject(ctx context.Context, id string) (*Report, error) {
	if err := validID(id); err != nil {
		return nil, err
	}
	dir := r.Path(id)
	if _, err := r.dir.Lstat(dir); err != nil {
		return nil, fmt.Errorf("validate object %q: %w: %w", id, ErrNotFound, err)
	}
	report := &Report{}
	got, err := checkObject(ctx, r.dir, dir, r.spec, report, make([]byte, copyBuffer))
	if err != nil {
		return report, fmt.Errorf("validate object %q: %w", id, err)
	}
	if got != "" && got != id {
		report.add(Problem{Code: "E083", Object: dir, Detail: fmt.Sprintf("the directory of %q holds %q", id, got)})
	}
	return report, nil
}

// rootCheck is one run of Validate.
type rootCheck struct {
	dir    *os.Root
	report *Report
	spec   string
	layout *Layout           // nil if the root has none that this package supports
	ids    map[string]string // id -> object directory; only if no layout makes ids unique
	flat   bool              // an object was found directly below the root
	deep   bool              // an object was found further down
	buf    []byte
}

func (c *rootCheck) found(code, name, format string, args ...any) {
	c.report.add(Problem{Code: code, Path: name, Detail: detail(format, args...)})
}

func (c *rootCheck) run(ctx context.Context) error {
	entries, err := readDir(c.dir, ".")
	if err != nil {
		return err
	}
	c.declaration(entries)
	c.layoutFile()
	for _, e := range entries {
		switch {
		case e.Name() == extensionsDir && e.IsDir():
			if err := c.extensions(); err != nil {
				return err
			}
		case e.IsDir():
			if err := c.walk(ctx, e.Name()); err != nil {
				return err
			}
		case !e.Type().IsRegular():
			c.found("E090", e.Name(), "is neither a file nor a directory")
		}
	}
	if c.flat && c.deep {
		c.found("W015", "", "objects lie directly below the root and also further down")
	}
	return nil
}

func (c *rootCheck) declaration(entries []fs.DirEntry) {
	names := rootDeclarations.names(entries)
	switch {
	case len(names) == 0:
		c.found("E069", "", "no declaration such as 0=ocfl_1.1")
	case len(names) > 1:
		c.found("E076", "", "more than one declaration: %s", strings.Join(names, ", "))
	}
	read := func(name string) ([]byte, error) { return readLimited(c.dir, name, maxSmallFile) }
	c.spec = cmp.Or(rootDeclarations.check(names, read, c.found), specVersion)
}

func (c *rootCheck) layoutFile() {
	data, err := readLimited(c.dir, layoutFile, maxSmallFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	doc, perr := parseDocument(data)
	if err != nil || perr != nil || doc.kind != jsonObject {
		c.found("E070", layoutFile, "is not a JSON object")
		return
	}
	for _, key := range []string{"extension", "description"} {
		if v, ok := doc.get(key); !ok || v.kind != jsonString {
			c.found("E070", layoutFile, "has no %s", key)
		}
	}
	extension, ok := doc.get("extension")
	if !ok {
		return
	}
	if !slices.Contains(registeredExtensions, extension.text) {
		c.found("E071", layoutFile, "extension %q is not registered", extension.text)
	}
	if extension.text != LayoutExtension {
		return
	}
	layout, err := readLayout(c.dir)
	if err != nil {
		c.found("E071", layoutFile, "%v", err)
		return
	}
	c.layout = &layout
}

func (c *rootCheck) extensions() error {
	entries, err := readDir(c.dir, extensionsDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(extensionsDir, e.Name())
		if !e.IsDir() {
			c.found("E112", name, "is not a directory")
		} else if !slices.Contains(registeredExtensions, e.Name()) {
			c.found("W016", name, "is not the name of a registered extension")
		}
	}
	return nil
}

// walk finds the objects below dir.
func (c *rootCheck) walk(ctx context.Context, dir string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := readDir(c.dir, dir)
	if err != nil {
		c.found("E072", dir, "cannot be read: %v", err)
		return nil
	}
	if resemblesObject(entries) {
		return c.object(ctx, dir)
	}
	if len(entries) == 0 {
		c.found("E073", dir, "empty directory")
		return nil
	}
	dirs := 0
	for _, e := range entries {
		if e.IsDir() {
			dirs++
		}
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir():
			if err := c.walk(ctx, name); err != nil {
				return err
			}
		case !e.Type().IsRegular():
			c.found("E090", name, "is neither a file nor a directory")
		case dirs > 0:
			c.found("E084", name, "file in a directory above objects")
			c.found("E072", name, "file that is no part of an object")
		default:
			c.found("E072", name, "file that is no part of an object")
		}
	}
	if dirs == 0 {
		c.found("E085", dir, "the directory ends in no object")
	}
	return nil
}

// resemblesObject reports whether a directory without a declaration is a broken object: it has an entry that only
// objects have.
func resemblesObject(entries []fs.DirEntry) bool {
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return strings.Contains(e.Name(), "=ocfl_object") || (e.Name() == inventoryFile && !e.IsDir())
	})
}

func (c *rootCheck) object(ctx context.Context, dir string) error {
	if strings.Contains(dir, "/") {
		c.deep = true
	} else {
		c.flat = true
	}
	id, err := checkObject(ctx, c.dir, dir, c.spec, c.report, c.buf)
	if err != nil || id == "" {
		return err
	}
	if c.layout != nil {
		if want := c.layout.Path(id); want != dir {
			c.report.add(Problem{Code: "E083", Object: dir, Detail: fmt.Sprintf("the layout puts %q at %s", id, want)})
		}
		return nil
	}
	if other, twice := c.ids[id]; twice {
		c.report.add(Problem{Code: "E037", Object: dir, Detail: fmt.Sprintf("id %q belongs to %s also", id, other)})
	}
	c.ids[id] = dir
	return nil
}
