package ocfl

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// planted are faults, each with a code that the report must hold.
var planted = []struct {
	code, name string
	plant      func(f *fixture)
}{
	{"E001", "file in the object root", func(f *fixture) { f.write("notes.txt", "x") }},
	{"E001", "directory in the object root", func(f *fixture) { f.write("other/notes.txt", "x") }},
	{"E001", "orphan version directory", func(f *fixture) { f.write("v3/content/x", "x") }},
	{"E003", "no declaration", func(f *fixture) { f.remove("0=ocfl_object_1.1") }},
	{"E003", "two declarations", func(f *fixture) { f.write("0=ocfl_object_1.0", "ocfl_object_1.0\n") }},
	{"E005", "declaration begins with 1", func(f *fixture) { f.rename("0=ocfl_object_1.1", "1=ocfl_object_1.1") }},
	{"E006", "declaration of 9.9", func(f *fixture) { f.rename("0=ocfl_object_1.1", "0=ocfl_object_9.9") }},
	{"E007", "declaration without newline", func(f *fixture) { f.write("0=ocfl_object_1.1", "ocfl_object_1.1") }},
	{"E008", "no versions in the block", func(f *fixture) { f.edit(func(n node) { n["versions"] = node{} }) }},
	{"E009", "first version is v2", func(f *fixture) { f.edit(func(n node) { delete(at(n, "versions"), "v1") }) }},
	{"E010", "v3 follows v1", func(f *fixture) {
		f.edit(func(n node) { v := at(n, "versions"); v["v3"] = v["v2"]; delete(v, "v2"); n["head"] = "v3" })
	}},
	{"E010", "version directory is missing", func(f *fixture) { f.remove("v1") }},
	{"E011", "padded name without a zero", func(f *fixture) {
		f.edit(func(n node) { n["versions"] = node{"v01": at(n, "versions", "v1"), "v22": at(n, "versions", "v2")} })
	}},
	{"E012", "two styles of version name", func(f *fixture) {
		f.edit(func(n node) { v := at(n, "versions"); v["v02"] = v["v2"]; delete(v, "v2"); n["head"] = "v02" })
	}},
	{"E013", "the second version breaks the convention of the first", func(f *fixture) {
		f.edit(func(n node) { v := at(n, "versions"); v["v02"] = v["v2"]; delete(v, "v2"); n["head"] = "v02" })
	}},
	{"E013", "padded name without a zero after one with", func(f *fixture) {
		f.edit(func(n node) { n["versions"] = node{"v01": at(n, "versions", "v1"), "v22": at(n, "versions", "v2")} })
	}},
	{"E015", "file in a version directory", func(f *fixture) { f.write("v1/notes.txt", "x") }},
	{"E016", "content directory is missing", func(f *fixture) { f.remove("v1/content") }},
	{"E017", "contentDirectory with a slash",
		func(f *fixture) { f.edit(func(n node) { n["contentDirectory"] = "a/b" }) }},
	{"E018", "contentDirectory is dots", func(f *fixture) { f.edit(func(n node) { n["contentDirectory"] = ".." }) }},
	{"E019", "contentDirectory set in v2 only",
		func(f *fixture) { f.edit(func(n node) { n["contentDirectory"] = "data" }) }},
	{"E019", "contentDirectory set to its default in v2 only",
		func(f *fixture) { f.edit(func(n node) { n["contentDirectory"] = "content" }) }},
	{"E020", "contentDirectory changed",
		func(f *fixture) { f.editV1(func(n node) { n["contentDirectory"] = "data" }) }},
	{"E021", "contentDirectory is a number", func(f *fixture) { f.edit(func(n node) { n["contentDirectory"] = 1 }) }},
	{"E023", "file that no manifest lists", func(f *fixture) { f.write("v1/content/extra", "x") }},
	{"E023", "content file is missing", func(f *fixture) { f.remove("v2/content/c.txt") }},
	{"E023", "old manifest lacks a file",
		func(f *fixture) { f.editV1(func(n node) { delete(at(n, "manifest"), digestB) }) }},
	{"E024", "empty directory in content", func(f *fixture) { f.mkdir("v1/content/empty") }},
	{"E025", "digestAlgorithm md5", func(f *fixture) { f.edit(func(n node) { n["digestAlgorithm"] = "md5" }) }},
	{"E025", "manifest key is no digest", func(f *fixture) {
		f.edit(func(n node) { m := at(n, "manifest"); m["abc"] = m[digestA] })
	}},
	{"E033", "inventory is no JSON", func(f *fixture) { f.setInventory("{") }},
	{"E033", "inventory is an array", func(f *fixture) { f.setInventory("[]") }},
	{"E033", "inventory has text after its end", func(f *fixture) { f.setInventory(f.read(inventoryFile) + "{}") }},
	{"E033", "key twice", func(f *fixture) { f.replace(`"head":`, `"head": "v1", "head":`) }},
	{"E034", "inventory has another name", func(f *fixture) { f.rename("inventory.json", "Inventory.json") }},
	{"E036", "no id", func(f *fixture) { f.edit(func(n node) { delete(n, "id") }) }},
	{"E036", "no type", func(f *fixture) { f.edit(func(n node) { delete(n, "type") }) }},
	{"E036", "no digestAlgorithm", func(f *fixture) { f.edit(func(n node) { delete(n, "digestAlgorithm") }) }},
	{"E036", "no head", func(f *fixture) { f.edit(func(n node) { delete(n, "head") }) }},
	{"E037", "id is empty", func(f *fixture) { f.edit(func(n node) { n["id"] = "" }) }},
	{"E037", "id differs in v1", func(f *fixture) { f.editV1(func(n node) { n["id"] = "urn:other" }) }},
	{"E038", "type is another URI", func(f *fixture) { f.edit(func(n node) { n["type"] = "https://example.org/" }) }},
	{"E038", "type of 1.0 in an object of 1.1",
		func(f *fixture) { f.edit(func(n node) { n["type"] = inventoryType("1.0") }) }},
	{"E040", "head is not the newest", func(f *fixture) { f.edit(func(n node) { n["head"] = "v1" }) }},
	{"E040", "head does not exist", func(f *fixture) { f.edit(func(n node) { n["head"] = "v3" }) }},
	{"E040", "head is a number", func(f *fixture) { f.edit(func(n node) { n["head"] = 2 }) }},
	{"E040", "head of v1's inventory", func(f *fixture) { f.editV1(func(n node) { n["head"] = "v2" }) }},
	{"E041", "no manifest", func(f *fixture) { f.edit(func(n node) { delete(n, "manifest") }) }},
	{"E042", "content path outside a version", func(f *fixture) {
		f.edit(func(n node) { at(n, "manifest")[digestA] = []string{"logs/a.txt"} })
	}},
	{"E043", "no versions", func(f *fixture) { f.edit(func(n node) { delete(n, "versions") }) }},
	{"E044", "versions is an array", func(f *fixture) { f.edit(func(n node) { n["versions"] = []string{} }) }},
	{"E046", "version directory unknown to the inventory", func(f *fixture) { f.mkdir("v3") }},
	{"E047", "version block is a string", func(f *fixture) { f.edit(func(n node) { at(n, "versions")["v1"] = "x" }) }},
	{"E048", "no created", func(f *fixture) { f.edit(func(n node) { delete(at(n, "versions", "v2"), "created") }) }},
	{"E048", "no state", func(f *fixture) { f.edit(func(n node) { delete(at(n, "versions", "v2"), "state") }) }},
	{"E049", "created without a zone", func(f *fixture) {
		f.edit(func(n node) { at(n, "versions", "v2")["created"] = "2026-03-04T05:06:07" })
	}},
	{"E049", "created to the minute", func(f *fixture) {
		f.edit(func(n node) { at(n, "versions", "v2")["created"] = "2026-03-04T05:06Z" })
	}},
	{"E050", "state digest is not in the manifest", func(f *fixture) {
		f.edit(func(n node) { at(n, "versions", "v2", "state")[digestOf(SHA512, nil)] = []string{"z"} })
	}},
	{"E050", "state digest in another case", func(f *fixture) {
		f.edit(func(n node) {
			s := at(n, "versions", "v2", "state")
			s[strings.ToUpper(digestC)] = s[digestC]
			delete(s, digestC)
		})
	}},
	{"E050", "state is an array",
		func(f *fixture) { f.edit(func(n node) { at(n, "versions", "v2")["state"] = []string{} }) }},
	{"E051", "logical paths are a string", func(f *fixture) {
		f.edit(func(n node) { at(n, "versions", "v2", "state")[digestC] = "c.txt" })
	}},
	{"E052", "logical path with dots", func(f *fixture) {
		f.edit(func(n node) { at(n, "versions", "v2", "state")[digestC] = []string{"../c.txt"} })
	}},
	{"E053", "logical path with a slash in front", func(f *fixture) {
		f.edit(func(n node) { at(n, "versions", "v2", "state")[digestC] = []string{"/c.txt"} })
	}},
	{"E054", "user without a name",
		func(f *fixture) { f.edit(func(n node) { delete(at(n, "versions", "v2", "user"), "name") }) }},
	{"E054", "user is a string", func(f *fixture) { f.edit(func(n node) { at(n, "versions", "v2")["user"] = "me" }) }},
	{"E056", "unknown fixity algorithm", func(f *fixture) { f.edit(func(n node) { at(n, "fixity")["sum"] = node{} }) }},
	{"E057", "fixity block is an array",
		func(f *fixture) { f.edit(func(n node) { at(n, "fixity")["md5"] = []string{} }) }},
	{"E057", "fixity key is no digest", func(f *fixture) {
		f.edit(func(n node) { at(n, "fixity", "md5")["abc"] = []string{"v1/content/a.txt"} })
	}},
	{"E093", "fixity of a file that is not there", func(f *fixture) {
		f.edit(func(n node) { at(n, "fixity", "md5")[digestOf(MD5, nil)] = []string{"v1/content/none"} })
	}},
	{"E058", "no sidecar", func(f *fixture) { f.remove("inventory.json.sha512") }},
	{"E058", "no sidecar in v1", func(f *fixture) { f.remove("v1/inventory.json.sha512") }},
	{"E060", "sidecar of another inventory",
		func(f *fixture) { f.write("inventory.json.sha512", f.read("v1/inventory.json.sha512")) }},
	{"E060", "sidecar of v1",
		func(f *fixture) { f.write("v1/inventory.json.sha512", f.read("inventory.json.sha512")) }},
	{"E061", "form of the sidecar", func(f *fixture) { f.write("inventory.json.sha512", digestA+"\n") }},
	{"E063", "no inventory", func(f *fixture) { f.remove("inventory.json") }},
	{"E064", "inventory of v2 differs",
		func(f *fixture) { f.write("v2/inventory.json", f.read("inventory.json")+"\n"); f.seal("v2") }},
	{"E066", "state of v1 was changed", func(f *fixture) {
		f.edit(func(n node) { at(n, "versions", "v1", "state")[digestB] = []string{"dir/other.txt"} })
	}},
	{"E067", "file in the object's extensions", func(f *fixture) { f.write("extensions/file", "x") }},
	{"E081", "object of 1.1 in a root of 1.0", func(f *fixture) {
		f.check(os.Rename(filepath.Join(f.dir, "0=ocfl_1.1"), filepath.Join(f.dir, "0=ocfl_1.0")))
		write(f.t, f.dir, "0=ocfl_1.0", "ocfl_1.0\n")
	}},
	{"E090", "symbolic link in the object root", func(f *fixture) { f.symlink("link") }},
	{"E090", "symbolic link in content", func(f *fixture) { f.symlink("v1/content/link") }},
	{"E092", "flipped byte", func(f *fixture) { f.write("v1/content/a.txt", "B") }},
	{"E092", "manifest value is a string", func(f *fixture) {
		f.edit(func(n node) { at(n, "manifest")[digestA] = "v1/content/a.txt" })
	}},
	{"E092", "old manifest has another digest", func(f *fixture) {
		f.editV1(func(n node) {
			m := at(n, "manifest")
			m[digestA], m[digestB] = m[digestB], m[digestA]
		})
	}},
	{"E093", "fixity value of other bytes", func(f *fixture) {
		f.edit(func(n node) { at(n, "fixity")["md5"] = node{digestOf(MD5, []byte("Z")): []string{"v1/content/a.txt"}} })
	}},
	{"E094", "message is a number",
		func(f *fixture) { f.edit(func(n node) { at(n, "versions", "v2")["message"] = 1 }) }},
	{"E095", "logical path twice", func(f *fixture) {
		f.edit(func(n node) { at(n, "versions", "v2", "state")[digestC] = []string{"a.txt"} })
	}},
	{"E095", "logical path is also a directory", func(f *fixture) {
		f.edit(func(n node) { at(n, "versions", "v2", "state")[digestC] = []string{"a.txt/c.txt"} })
	}},
	{"E096", "manifest digest in two cases", func(f *fixture) {
		f.edit(func(n node) { at(n, "manifest")[strings.ToUpper(digestA)] = []string{} })
	}},
	{"E097", "fixity digest in two cases", func(f *fixture) {
		f.edit(func(n node) {
			at(n, "fixity", "md5")[strings.ToUpper(digestOf(MD5, []byte("A")))] = []string{"v1/content/a.txt"}
		})
	}},
	{"E051", "logical path of a megabyte", func(f *fixture) {
		f.edit(func(n node) { at(n, "versions", "v2", "state")[digestC] = []string{strings.Repeat("a/", 1<<19) + "c"} })
	}},
	{"E098", "content path of a megabyte", func(f *fixture) {
		f.edit(func(n node) {
			at(n,
				"manifest")[digestA] = []string{"v1/content/" + strings.Repeat("a/", 1<<19) + "c"}
		})
	}},
	{"E099", "content path with dots", func(f *fixture) {
		f.edit(func(n node) { at(n, "manifest")[digestA] = []string{"v1/content/../../a.txt"} })
	}},
	{"E100", "content path with a slash at its end", func(f *fixture) {
		f.edit(func(n node) { at(n, "manifest")[digestA] = []string{"v1/content/a.txt/"} })
	}},
	{"E099", "empty content path", func(f *fixture) {
		f.edit(func(n node) { at(n, "manifest")[digestA] = []string{""} })
	}},
	{"E099", "content path with a slash in front and dots", func(f *fixture) {
		f.edit(func(n node) { at(n, "manifest")[digestA] = []string{"/v1/content/../a.txt"} })
	}},
	{"E100", "content path with a slash in front and dots", func(f *fixture) {
		f.edit(func(n node) { at(n, "manifest")[digestA] = []string{"/v1/content/../a.txt"} })
	}},
	{"E099", "fixity path with an empty element", func(f *fixture) {
		f.edit(func(n node) {
			at(n, "fixity")["md5"] = node{digestOf(MD5, []byte("A")): []string{"v1//content/a.txt"}}
		})
	}},
	{"E100", "fixity path with a slash in front", func(f *fixture) {
		f.edit(func(n node) {
			at(n, "fixity")["md5"] = node{digestOf(MD5, []byte("A")): []string{"/v1/content/a.txt"}}
		})
	}},
	{"E101", "content path of two digests", func(f *fixture) {
		f.edit(func(n node) { at(n, "manifest")[digestB] = []string{"v1/content/a.txt"} })
	}},
	{"E102", "unknown key", func(f *fixture) { f.edit(func(n node) { n["comment"] = "x" }) }},
	{"E102", "unknown key in a version",
		func(f *fixture) { f.edit(func(n node) { at(n, "versions", "v2")["key"] = "x" }) }},
	{"E103", "1.1 before 1.0", func(f *fixture) { f.edit(func(n node) { n["type"] = inventoryType("1.0") }) }},
	{"E104", "version name without v",
		func(f *fixture) { f.edit(func(n node) { at(n, "versions")["3"] = at(n, "versions", "v2") }) }},
	{"E105", "version name v0",
		func(f *fixture) { f.edit(func(n node) { at(n, "versions")["v0"] = at(n, "versions", "v2") }) }},
	{"E106", "manifest is an array", func(f *fixture) { f.edit(func(n node) { n["manifest"] = []string{} }) }},
	{"E107", "manifest digest in no state", func(f *fixture) {
		f.edit(func(n node) { delete(at(n, "versions", "v2", "state"), digestC) })
	}},
	{"E108", "contentDirectory further down",
		func(f *fixture) { f.edit(func(n node) { n["contentDirectory"] = "a/b" }) }},
	{"E110", "id differs in v1", func(f *fixture) { f.editV1(func(n node) { n["id"] = "urn:other" }) }},
	{"E111", "fixity is an array", func(f *fixture) { f.edit(func(n node) { n["fixity"] = []string{} }) }},

	{"W002", "directory in a version directory", func(f *fixture) { f.mkdir("v1/other") }},
	{"W005", "id is no URI", func(f *fixture) { f.rehome("not a uri") }},
	{"W007", "no message", func(f *fixture) { f.edit(func(n node) { delete(at(n, "versions", "v2"), "message") }) }},
	{"W008", "no address", func(f *fixture) {
		f.edit(func(n node) {
			delete(at(n, "versions", "v2", "user"),
				"address")
		})
	}},
	{"W009", "address is no URI",
		func(f *fixture) { f.edit(func(n node) { at(n, "versions", "v2", "user")["address"] = "here" }) }},
	{"W010", "no inventory in v1",
		func(f *fixture) { f.remove("v1/inventory.json"); f.remove("v1/inventory.json.sha512") }},
	{"W011", "message of v1 was changed",
		func(f *fixture) { f.edit(func(n node) { at(n, "versions", "v1")["message"] = "other" }) }},
	{"W013", "extension that is not registered", func(f *fixture) { f.mkdir("extensions/mine") }},
}

// rehome gives the object another id and moves it to the path of the layout.
func (f *fixture) rehome(id string) {
	f.t.Helper()
	f.edit(func(n node) { n["id"] = id })
	f.editV1(func(n node) { n["id"] = id })
	to := filepath.Join(f.dir, DefaultLayout().Path(id))
	f.check(os.MkdirAll(filepath.Dir(to), 0o755))
	f.check(os.Rename(f.home, to))
	for dir := filepath.Dir(f.home); os.Remove(dir) == nil; dir = filepath.Dir(dir) {
		continue
	}
}

func TestValidateFindsPlantedFaults(t *testing.T) {
	if got := newFixture(t).codes(); len(got) > 0 {
		t.Fatalf("the fixture itself has %v", got)
	}
	for _, test := range planted {
		t.Run(test.code+" "+test.name, func(t *testing.T) {
			f := newFixture(t)
			test.plant(f)
			f.want(test.code)
		})
	}
	t.Logf("%d faults", len(planted))
}

func TestValidateStorageRoot(t *testing.T) {
	for _, test := range []struct {
		code, name string
		plant      func(f *fixture)
	}{
		{"E069", "no declaration", func(f *fixture) { f.check(os.Remove(filepath.Join(f.dir, "0=ocfl_1.1"))) }},
		{"E070", "layout without description",
			func(f *fixture) { write(f.t, f.dir, layoutFile, `{"extension":"0004-hashed-n-tuple-storage-layout"}`) }},
		{"E070", "layout is no JSON", func(f *fixture) { write(f.t, f.dir, layoutFile, `{`) }},
		{"E071", "unknown layout",
			func(f *fixture) { write(f.t, f.dir, layoutFile, `{"extension":"mine","description":"x"}`) }},
		{"E071", "bad parameters", func(f *fixture) {
			write(f.t, f.dir, "extensions/"+LayoutExtension+"/config.json", `{"tupleSize":99}`)
		}},
		{"E072", "directory of files", func(f *fixture) { write(f.t, f.dir, "stray/file", "x") }},
		{"E073", "empty directory", func(f *fixture) { f.check(os.Mkdir(filepath.Join(f.dir, "empty"), 0o755)) }},
		{"E076", "two declarations", func(f *fixture) { write(f.t, f.dir, "0=ocfl_1.0", "ocfl_1.0\n") }},
		{"E078", "declaration begins with 1", func(f *fixture) { write(f.t, f.dir, "1=ocfl_1.1", "ocfl_1.1\n") }},
		{"E079", "declaration of 7", func(f *fixture) { write(f.t, f.dir, "0=ocfl_7", "ocfl_7\n") }},
		{"E080", "declaration without newline", func(f *fixture) { write(f.t, f.dir, "0=ocfl_1.1", "ocfl_1.1") }},
		{"E083", "object at another path", func(f *fixture) { f.check(os.Rename(f.home, f.home[:len(f.home)-1])) }},
		{"E084", "file above the objects", func(f *fixture) { write(f.t, filepath.Dir(f.home), "file", "x") }},
		{"E090", "symbolic link", func(f *fixture) { f.check(os.Symlink("/etc", filepath.Join(f.dir, "link"))) }},
		{"E112", "file in extensions", func(f *fixture) { write(f.t, f.dir, "extensions/file", "x") }},
		{"E003", "object without declaration", func(f *fixture) { f.remove("0=ocfl_object_1.1") }},
		{"E037", "id twice without a layout", func(f *fixture) {
			f.check(os.Remove(filepath.Join(f.dir, layoutFile)))
			f.check(os.CopyFS(filepath.Join(f.dir, "copy"), os.DirFS(f.home)))
		}},
		{"W015", "objects at the top and below", func(f *fixture) {
			f.check(os.Remove(filepath.Join(f.dir, layoutFile)))
			f.check(os.CopyFS(filepath.Join(f.dir, "copy"), os.DirFS(f.home)))
		}},
		{"W016", "extension that is not registered", func(f *fixture) { write(f.t, f.dir, "extensions/mine/x", "x") }},
	} {
		t.Run(test.code+" "+test.name, func(t *testing.T) {
			f := newFixture(t)
			test.plant(f)
			report, err := Validate(t.Context(), f.dir)
			f.check(err)
			for _, code := range report.Codes() {
				if code == test.code {
					return
				}
			}
			t.Errorf("codes %v, want %s", report.Codes(), test.code)
		})
	}
}

// TestValidateIgnores: things that are allowed, or that a validator must pass over (E022, E028, E087).
func TestValidateIgnores(t *testing.T) {
	f := newFixture(t)
	write(t, f.dir, "ocfl_1.1.md", "text of the specification")
	f.write("logs/2026.log", "x")
	f.write("extensions/0005-mutable-head/x", "x")
	f.replace(`"md5": {`, `"blake2b-160": {"abcd": ["v1/content/a.txt"]}, "md5": {`)
	if got := f.codes(); len(got) > 0 {
		t.Errorf("codes %v, want none", got)
	}
}

func TestValidateSha256AndPadding(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "0=ocfl_1.0", "ocfl_1.0\n")
	sum := digestOf(SHA256, []byte("A"))
	inv := `{"id":"urn:x","type":"https://ocfl.io/1.0/spec/#inventory","digestAlgorithm":"sha256","head":"v001",
"manifest":{"` + sum + `":["v001/content/a"]},"versions":{"v001":{"created":"2026-01-02T03:04:05.678+01:00","message":"m",
"user":{"name":"n","address":"mailto:n@example.org"},"state":{"` + sum + `":["a"]}}}}`
	for _, at := range []string{"o/", "o/v001/"} {
		write(t, dir, at+"inventory.json", inv)
		write(t, dir, at+"inventory.json.sha256", digestOf(SHA256, []byte(inv))+"  inventory.json")
	}
	write(t, dir, "o/0=ocfl_object_1.0", "ocfl_object_1.0\n")
	write(t, dir, "o/v001/content/a", "A")
	report, err := Validate(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(report.Codes(), " "); got != "W001 W004" {
		t.Errorf("codes %s, want W001 W004: %v", got, report.Errors)
	}
}

func TestValidateObject(t *testing.T) {
	f := newFixture(t)
	r, err := OpenRoot(f.dir)
	f.check(err)
	defer r.Close()
	report, err := r.ValidateObject(t.Context(), testID)
	if err != nil || !report.Valid() || report.Files != 3 || report.Err() != nil {
		t.Errorf("got %+v, %v", report, err)
	}
	f.write("v1/content/a.txt", "B")
	report, err = r.ValidateObject(t.Context(), testID)
	if err != nil || report.Valid() || !errors.Is(report.Err(), ErrCorrupt) {
		t.Errorf("flipped byte: got %+v, %v", report, err)
	}
	if _, err := r.ValidateObject(t.Context(), "none"); !errors.Is(err, ErrNotFound) {
		t.Errorf("no object: %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.ValidateObject(cancelled, testID); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := Validate(cancelled, f.dir); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestReadersRefuseWhatValidationCondemns: an inventory that breaks the rules is not used for reading either.
func TestReadersRefuseWhatValidationCondemns(t *testing.T) {
	f := newFixture(t)
	r, err := OpenRoot(f.dir)
	f.check(err)
	defer r.Close()
	if _, err := r.Object(testID); err != nil {
		t.Fatalf("control: %v", err)
	}
	f.edit(func(n node) { at(n, "manifest")[digestA] = []string{"v1/content/../../../secret"} })
	if _, err := r.Object(testID); !errors.Is(err, ErrCorrupt) {
		t.Errorf("path that leaves the object: got %v, want ErrCorrupt", err)
	}
}

func FuzzParseInventory(f *testing.F) {
	inv := newInventory("urn:x")
	inv.Head = "v1"
	inv.Manifest[digestA] = []string{"v1/content/a"}
	inv.Versions["v1"] = &VersionBlock{Created: "2026-01-02T03:04:05Z", Message: "m",
		State: map[string][]string{digestA: {"a"}}}
	data, err := inv.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"versions":{"v1":{},"v1":[]},"manifest":{"a":["/"]},"fixity":{"md5":{"":[""]}}}`))
	f.Add([]byte(strings.Repeat("[", 100)))
	f.Fuzz(func(t *testing.T, data []byte) {
		inv, problems := parseInventory(data)
		if inv == nil && len(problems) == 0 {
			t.Error("neither inventory nor problem")
		}
		for _, p := range problems {
			if strings.HasPrefix(p.Code, "E") {
				return
			}
		}
		// What passes can be written and read again, and is followed by a next version.
		again, err := inv.encode()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range second(parseInventory(again)) {
			if strings.HasPrefix(p.Code, "E") {
				t.Errorf("after writing: %s", p)
			}
		}
		for digest := range inv.Manifest {
			for _, content := range inv.Manifest[digest] {
				if strings.Contains("/"+content+"/", "/../") || content[0] == '/' {
					t.Errorf("content path %q passed", content)
				}
			}
		}
	})
}

func second[A, B any](_ A, b B) B { return b }
