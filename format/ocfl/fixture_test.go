package ocfl

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fixture is a valid storage root with one object of two versions, for a test to break.
//
//	v1: a.txt "A", dir/b.txt "B"      v2: a.txt "A", c.txt "C"
type fixture struct {
	t    *testing.T
	dir  string // storage root
	home string // object
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir := memoryDir(t)
	r, err := InitRoot(dir, Layout{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	add(t, r, testID, version("first", text("a.txt", "A"), text("dir/b.txt", "B")), Options{Fixity: []string{MD5}})
	add(t, r, testID, version("second", text("a.txt", "A"), text("c.txt", "C")), Options{Fixity: []string{MD5}})
	return &fixture{t, dir, filepath.Join(dir, r.Path(testID))}
}

func (f *fixture) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// write puts a file into the object.
func (f *fixture) write(name, content string) { f.t.Helper(); write(f.t, f.home, name, content) }

func (f *fixture) read(name string) string {
	f.t.Helper()
	data, err := os.ReadFile(filepath.Join(f.home, name))
	f.check(err)
	return string(data)
}

func (f *fixture) remove(name string) {
	f.t.Helper()
	f.check(os.RemoveAll(filepath.Join(f.home, name)))
}

func (f *fixture) rename(from, to string) {
	f.t.Helper()
	f.check(os.Rename(filepath.Join(f.home, from), filepath.Join(f.home, to)))
}

func (f *fixture) mkdir(name string) {
	f.t.Helper()
	f.check(os.MkdirAll(filepath.Join(f.home, name), 0o755))
}

func (f *fixture) symlink(name string) {
	f.t.Helper()
	f.check(os.Symlink("inventory.json", filepath.Join(f.home, name)))
}

// seal writes the sidecar of the inventory in a directory of the object ("" for its root).
func (f *fixture) seal(dir string) {
	f.t.Helper()
	data := f.read(filepath.Join(dir, inventoryFile))
	f.write(filepath.Join(dir, "inventory.json.sha512"), digestOf(SHA512, []byte(data))+" inventory.json\n")
}

// setInventory writes the inventory of the root and of v2, sealed.
func (f *fixture) setInventory(data string) {
	f.t.Helper()
	for _, dir := range []string{"", "v2"} {
		f.write(filepath.Join(dir, inventoryFile), data)
		f.seal(dir)
	}
}

// replace changes the text of the inventory of the root and of v2.
func (f *fixture) replace(old, new string) {
	f.t.Helper()
	before := f.read(inventoryFile)
	after := strings.Replace(before, old, new, 1)
	if before == after {
		f.t.Fatalf("inventory has no %q", old)
	}
	f.setInventory(after)
}

type node = map[string]any

// edit changes the inventory of the root and of v2.
func (f *fixture) edit(change func(inv node)) {
	f.t.Helper()
	f.setInventory(f.edited(inventoryFile, change))
}

// editV1 changes the inventory in v1 only.
func (f *fixture) editV1(change func(inv node)) {
	f.t.Helper()
	f.write("v1/inventory.json", f.edited("v1/inventory.json", change))
	f.seal("v1")
}

func (f *fixture) edited(name string, change func(inv node)) string {
	f.t.Helper()
	var inv node
	f.check(json.Unmarshal([]byte(f.read(name)), &inv))
	change(inv)
	data, err := json.MarshalIndent(inv, "", " ")
	f.check(err)
	return string(data)
}

func at(n node, keys ...string) node {
	for _, k := range keys {
		n = n[k].(node)
	}
	return n
}

var digestA, digestB, digestC = digestOf(SHA512, []byte("A")), digestOf(SHA512, []byte("B")),
	digestOf(SHA512, []byte("C"))

func (f *fixture) codes() []string {
	f.t.Helper()
	report, err := Validate(f.t.Context(), f.dir)
	f.check(err)
	return report.Codes()
}

func (f *fixture) want(code string) {
	f.t.Helper()
	report, err := Validate(f.t.Context(), f.dir)
	f.check(err)
	if !slices.Contains(report.Codes(), code) {
		f.t.Errorf("codes %v, want %s", report.Codes(), code)
	}
	if strings.HasPrefix(code, "W") && !report.Valid() {
		f.t.Errorf("a warning made the root invalid: %v", report.Errors)
	}
	for _, p := range append(report.Errors, report.Warnings...) {
		if p.Code == code && (p.Detail == "" || !strings.HasPrefix(p.String(), code)) {
			f.t.Errorf("problem %+v reads %q", p, p)
		}
	}
}
