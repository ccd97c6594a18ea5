package checkm_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/format/checkm"
)

func TestReadFields(t *testing.T) {
	text := batchHeader("mrt-batch-manifest") +
		"  https://example.org/a%20b%7c.checkm?x=1 |SHA-256\t| ABC |\v7|2020-01-02T11:04:05+01:00 | " +
		"%20a%7cb%20.checkm | ark:/1/a | x; y;x ;; z | Ä%7C%2f | T |  2009 | extra  \n" +
		"http://h | md2 | ff | +8 | 2020-01-02 | d/e.checkm \n" +
		"http://h/p/q.checkm#frag | md5\n#%eof"
	got, err := readAll(checkm.NewReader("m", strings.NewReader(text), checkm.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	want := []checkm.Row{
		{Line: 6, URL: "https://example.org/a%20b%7c.checkm?x=1",
			Digest: checkm.Digest{Algorithm: checkm.SHA256, Value: "ABC"}, Size: 7,
			Modified: time.Date(2020, 1, 2, 10, 4, 5, 0, time.UTC), FileName: " a|b .checkm", PrimaryID: "ark:/1/a",
			LocalID: "x; y;x ;; z",
			Creator: "Ä%7C%2f", Title: "T", Date: "2009"},
		{Line: 7, URL: "http://h", Digest: checkm.Digest{Algorithm: checkm.MD2, Value: "ff"}, Size: 8,
			Modified: time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC), FileName: "d/e.checkm"},
		{Line: 8, URL: "http://h/p/q.checkm#frag", Size: -1, FileName: "p/q.checkm"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"x", "y", "z"}, got[0].LocalIDs()); diff != "" {
		t.Error(diff)
	}
	if ids := got[1].LocalIDs(); ids != nil {
		t.Errorf("ids of a row without ids: %q", ids)
	}
}

func TestReadContainer(t *testing.T) {
	text := `#%checkm_0.7
#%profile | http://uc3.cdlib.org/registry/store/manifest/mrt-object-manifest
#%prefix | nfo:<http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#>
#%prefix | nie:<http://www.semanticdesktop.org/ontologies/2007/01/19/nie/#>
#%prefix | mrt:<http://uc3.cdlib.org/ontology/mrt/mom#>
#%columns | nfo:fileName | nfo:hashAlgorithm | nfo:hashValue | nfo:fileSize | nfo:fileLastModified | nie:mimeType
producer/a.txt | md5 | b1946ac92492d2347c6235b4d2611184 | 11 | 2020-01-02T11:04:05+00:00 | text/plain
#%eof`
	for _, strict := range []bool{false, true} {
		r := checkm.NewReader("m", strings.NewReader(text),
			checkm.Options{Strict: strict, Allow: []*checkm.Profile{checkm.ContainerObject}})
		got, err := readAll(r)
		if err != nil {
			t.Fatal(err)
		}
		want := []checkm.Row{{Line: 7,
			FileName: "producer/a.txt", Size: 11, MIMEType: "text/plain",
			Modified: time.Date(2020, 1, 2, 11, 4, 5, 0, time.UTC),
			Digest:   checkm.Digest{Algorithm: checkm.MD5, Value: "b1946ac92492d2347c6235b4d2611184"}}}
		if diff := cmp.Diff(want, got); diff != "" || r.Warnings() != nil {
			t.Error(diff, r.Warnings())
		}
	}
	_, err := readAll(checkm.NewReader("m", strings.NewReader(strings.Replace(text, "producer/a.txt", "", 1)),
		checkm.Options{}))
	verdict(t, err, "m:7:2: expected a file name, found nothing")
}

func TestProfileReadsAhead(t *testing.T) {
	r := checkm.NewReader("m", strings.NewReader(objectHeader+rowA+rowB+"#%eof"), checkm.Options{})
	for range 2 {
		if p, err := r.Profile(); p != checkm.Object || err != nil {
			t.Fatalf("got %v, %v", p, err)
		}
	}
	rows, err := readAll(r)
	if err != nil || len(rows) != 2 || rows[0].Line != 6 || rows[0].FileName != "a.txt" {
		t.Errorf("after Profile: %+v, %v", rows, err)
	}
	if p, err := r.Profile(); p != checkm.Object || err != nil {
		t.Errorf("at the end: %v, %v", p, err)
	}
	if _, err := r.Read(); err != io.EOF {
		t.Errorf("second end: %v", err)
	}
	none := checkm.NewReader("m", strings.NewReader(objectHeader+"#%eof"), checkm.Options{})
	if p, err := none.Profile(); p != checkm.Object || err != nil {
		t.Errorf("no rows: %v, %v", p, err)
	}
	broken := checkm.NewReader("m", strings.NewReader(objectHeader), checkm.Options{})
	if p, err := broken.Profile(); p != nil || err == nil {
		t.Errorf("no end: %v, %v", p, err)
	}
}

func TestAllow(t *testing.T) {
	open := func(allow ...*checkm.Profile) error {
		_, err := readAll(checkm.NewReader("m", strings.NewReader(objectHeader+rowA+"#%eof"),
			checkm.Options{Allow: allow}))
		return err
	}
	verdict(t, open(checkm.Object, checkm.Add), "")
	verdict(t, open(checkm.Add),
		`m:2:13: expected the URL of mrt-add-manifest, found `+
			`"http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-man…"`)
}

func TestErrorIsSticky(t *testing.T) {
	r := checkm.NewReader("", strings.NewReader(objectHeader+"mailto:x\n"+rowA+"#%eof"), checkm.Options{})
	_, first := r.Read()
	_, second := r.Read()
	verdict(t, first, `6:1: expected an http, https, ftp or file URL, found "mailto:x"`)
	if first != second {
		t.Errorf("then %v", second)
	}
}

func TestHostileBytes(t *testing.T) {
	tests := []struct{ name, text, err string }{
		{"empty", "", "m:1:1: expected #%profile | URL, found end of file"},
		{"byte order mark", "\ufeff" + objectHeader + "#%eof",
			"m:1:1: expected UTF-8 without byte order mark, found a byte order mark"},
		{"UTF-16", "#\x00%\x00c\x00", "m:1:2: expected text, found a NUL byte"},
		{"NUL in a row", objectHeader + strings.Replace(rowA, "a.txt\n", "ä\x00.txt\n", 1),
			"m:6:80: expected text, found a NUL byte"},
		{"NUL in a comment", "# \x00\n" + objectHeader + "#%eof", "m:1:3: expected text, found a NUL byte"},
		{"lone CR", objectHeader + "# note\r" + rowA + "#%eof",
			"m:6:7: expected LF or CRLF as line end, found a lone CR"},
		{"CR after eof", objectHeader + "#%eof\r", "m:6:6: expected LF or CRLF as line end, found a lone CR"},
		{"CR on a line after eof", objectHeader + "#%eof\n\r",
			"m:7:1: expected LF or CRLF as line end, found a lone CR"},
		{"blank after eof", objectHeader + "#%eof\n ", `m:7:1: expected the end of the file after #%eof, found " "`},
		{"row in a BOM", objectHeader + "\ufeff" +
			rowA + "#%eof", `m:6:1: expected an http, https, ftp or file URL, found ` +
			`"\ufeffhttps://example.org/s/a.txt"`},
		{"password in a message",
			objectHeader + "xhttp://user:secret@h/a\n",
			`m:6:1: expected an http, https, ftp or file URL, found "xhttp://***@h/a"`},
		{"password before the profile", "http://user:secret@h/a\n",
			`m:1:1: expected #%profile | URL before the first row, found "http://***@h/a"`},
		{"random", "\x89PNG\r\n\x1a\n", "m:1:1: expected #%profile | URL before the first row, found \"\ufffdPNG\""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, in := range []io.Reader{strings.NewReader(test.text),
				iotest.OneByteReader(strings.NewReader(test.text))} {
				_, err := readAll(checkm.NewReader("m", in, checkm.Options{}))
				verdict(t, err, test.err)
			}
		})
	}
}

// endless returns the same byte without end and counts the requested bytes.
type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.n += len(p)
	return len(p), nil
}

func TestEndlessLine(t *testing.T) {
	in := &endless{}
	_, err := readAll(checkm.NewReader("m", io.MultiReader(strings.NewReader(objectHeader+rowA), in), checkm.Options{}))
	verdict(t, err, "m:7:65537: expected a line end, found a line of more than 64 KiB")
	if in.n > 2*checkm.DefaultMaxLine {
		t.Errorf("read %d bytes of an endless line", in.n)
	}
	long := objectHeader + rowA + "# " + strings.Repeat("ä", 5<<20) + "\n#%eof"
	_, err = readAll(checkm.NewReader("m", strings.NewReader(long), checkm.Options{}))
	verdict(t, err, "m:7:32770: expected a line end, found a line of more than 64 KiB")
	_, err = readAll(checkm.NewReader("m", strings.NewReader(long), checkm.Options{MaxLine: 11 << 20}))
	verdict(t, err, "")
}

func TestMaxLine(t *testing.T) {
	line := func(n int) string { return "#" + strings.Repeat("x", n-1) }
	for _, end := range []string{"\n", "\r\n"} {
		for n, want := range map[int]string{
			100: "", 101: "m:1:101: expected a line end, found a line of more than 100 bytes",
			102: "m:1:101: expected a line end, found a line of more than 100 bytes",
			103: "m:1:101: expected a line end, found a line of more than 100 bytes",
		} {
			text := line(n) + end + "#%profile | http://uc3.cdlib.org/registry/mrt/mrt-add-manifest\n#%eof" + end
			_, err := readAll(checkm.NewReader("m", strings.NewReader(text), checkm.Options{MaxLine: 100}))
			verdict(t, err, want)
		}
	}
	text := "#%profile | http://uc3.cdlib.org/registry/mrt/mrt-add-manifest\n#%eof"
	for n, want := range map[int]string{100: "",
		101: "m:2:101: expected a line end, found a line of more than 100 bytes"} {
		_, err := readAll(checkm.NewReader("m", strings.NewReader(text+strings.Repeat(".", n-5)),
			checkm.Options{MaxLine: 100}))
		verdict(t, err, want)
	}
}

func TestReadFailure(t *testing.T) {
	broken := errors.New("connection reset")
	for _, text := range []string{objectHeader + rowA, objectHeader + rowA + "https://exa"} {
		_, err := readAll(checkm.NewReader("m", io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)),
			checkm.Options{}))
		verdict(t, err, "m:7: connection reset")
		if !errors.Is(err, broken) {
			t.Errorf("%v does not hold its cause", err)
		}
	}
	_, err := readAll(checkm.NewReader("m",
		io.MultiReader(strings.NewReader(objectHeader+"#%eof\n"), iotest.ErrReader(broken)), checkm.Options{}))
	verdict(t, err, "m:7: connection reset")
}

func TestFileNames(t *testing.T) {
	const below = "a file name below the object's folder "
	tests := []struct{ name, problem, strict string }{
		{"a", "", ""}, {"a/b.txt", "", ""}, {"a..b/..c/d..", "", ""}, {"...", "", ""}, {".hidden", "", ""},
		{"a b", "", ""},
		{"..", below + `(no "..")`, ""}, {"../a", below + `(no "..")`, ""}, {"a/../b", below + `(no "..")`, ""},
		{"a/..", below + `(no "..")`, ""},
		{`a\..\b`, below + `(no "..")`, ""}, {`..\b`, below + `(no "..")`, ""},
		{"/etc/passwd", below + "(not absolute)", ""}, {"//h/x", below + "(not absolute)", ""},
		{`\x`, below + "(not absolute)", ""},
		{`C:\x`, below + "(no drive letter)", ""}, {"c:/x", below + "(no drive letter)", ""},
		{"a/", "the name of a file, not of a folder", ""},
		{`a\`, "the name of a file, not of a folder", ""}, {".", "the name of a file, not of a folder", ""},
		{"a/.", "the name of a file, not of a folder", ""},
		{`a\b`, "", `a file name without "\"`}, {"a//b", "", `the file name "a/b"`}, {"./a", "", `the file name "a"`},
		{"a/./b", "", `the file name "a/b"`},
	}
	for _, test := range tests {
		for _, strict := range []bool{false, true} {
			text := objectHeader + "https://example.org/x |  |  |  |  | " + test.name + "\n#%eof"
			_, err := readAll(checkm.NewReader("m", strings.NewReader(text), checkm.Options{Strict: strict}))
			problem := test.problem
			if strict && problem == "" {
				problem = test.strict
			}
			want := ""
			if problem != "" {
				want = fmt.Sprintf("m:6:37: expected %s, found %q", problem, test.name)
			}
			verdict(t, err, want)
		}
	}
}

func TestNamesFromURLs(t *testing.T) {
	const fault = "m:6:1: expected %s, as the path of the URL where no name is given, found %q"
	tests := []struct{ url, name, problem string }{
		{"https://h/a/b.txt?x#y", "a/b.txt", ""}, {"HTTP://h:80/a%20b", "a%20b", ""}, {"file:///a", "a", ""},
		{"file:/a/b", "a/b", ""}, {"http://h:/a", "a", ""}, {"http://u:p@h/a", "a", ""},
		{"ftp://u:p@[::1]:21/a", "a", ""},
		{"https://h/", "", "a file name"}, {"https://h", "", "a file name"}, {"https://h?a/b", "", "a file name"},
		{"https://h//etc/passwd", "", "a file name below the object's folder (not absolute)"},
		{"https://h/../a", "", `a file name below the object's folder (no "..")`},
	}
	for _, test := range tests {
		r := checkm.NewReader("m", strings.NewReader(objectHeader+test.url+"\n#%eof"), checkm.Options{})
		row, err := r.Read()
		want := ""
		if test.problem != "" {
			want = fmt.Sprintf(fault, test.problem, test.url)
		}
		verdict(t, err, want)
		if row.FileName != test.name {
			t.Errorf("%s: got name %q, want %q", test.url, row.FileName, test.name)
		}
	}
}

func TestDates(t *testing.T) {
	day := time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC)
	for s, want := range map[string]time.Time{
		"2020-01-02": day, "2020-01-02T03:04:05Z": day.Add(3*time.Hour + 4*time.Minute + 5*time.Second),
		"2020-01-02T03:04:05.25-02:00": day.Add(5*time.Hour + 4*time.Minute + 5250*time.Millisecond),
		"2020-01-02T03:00:00+0100":     day.Add(2 * time.Hour),
		"2020-01-02T03:04":             day.Add(3*time.Hour + 4*time.Minute),
		"2020-01-02 00:00:01":          day.Add(time.Second),
		"2020-13-02":                   {}, "02.01.2020": {}, "2020": {}, "foo": {},
		"2020-01-02T03:04:05Zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz": {},
	} {
		r := checkm.NewReader("m", strings.NewReader(objectHeader+"https://h/a |  |  |  | "+s+"\n#%eof"),
			checkm.Options{})
		row, err := r.Read()
		if err != nil || !row.Modified.Equal(want) || (len(r.Warnings()) == 1) != want.IsZero() {
			t.Errorf("%s: got %v, %v, warnings %v; want %v", s, row.Modified, err, r.Warnings(), want)
		}
	}
}

func TestWarningsAreBounded(t *testing.T) {
	text := objectHeader + strings.Repeat("https://h/a |  |  |  | foo\nhttps://h/\xff\n", 1000) + "#%eof"
	r := checkm.NewReader("m", strings.NewReader(text), checkm.Options{})
	rows, err := readAll(r)
	if err != nil || len(rows) != 2000 || len(r.Warnings()) != 100 {
		t.Errorf("got %d rows, %v, %d warnings", len(rows), err, len(r.Warnings()))
	}
	if got, want := r.Warnings()[1].Error(), "m:7:11: expected UTF-8, found a byte that is not UTF-8"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
