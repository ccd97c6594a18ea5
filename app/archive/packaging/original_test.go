package packaging

import (
	"encoding/csv"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unicode/utf8"
)

// TestOriginalNames: percent-decoding the column original_name gives the bytes of each name in the source, also after
// the file was in the ledger of its job, which is JSON.
func TestOriginalNames(t *testing.T) {
	want := []string{"a.txt", "100 %.txt", "%41", "no\xffutf8", "\xc3", "a\rb\nc\r\n", "ü/\ufffd", "a+b",
		"\xed\xa0\x80%"}
	f := newFixture(t)
	f.Containers = []Container{Directory}
	for i, name := range want {
		one := &f.Files[i]
		if one.Original = name; !utf8.ValidString(name) {
			one.Original, one.Origin.Raw = "x\ufffd", []byte(name)
		}
		text, err := json.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		var read File
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		f.Files[i] = read
	}
	f.build(t)
	list, err := os.Open(filepath.Join(f.into, f.Name, "data", "metadata", "files.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	rows, err := csv.NewReader(list).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.Index(rows[0], "original_name")
	var got []string
	for _, row := range rows[1:] {
		name, err := url.PathUnescape(row[at])
		if err != nil || !utf8.ValidString(row[at]) {
			t.Errorf("%q: %v", row[at], err)
		}
		got = append(got, name)
	}
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("%q is not among %q", name, got)
		}
	}
}
