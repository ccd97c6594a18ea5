package checkm_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/format/checkm"
)

func TestWrite(t *testing.T) {
	var b bytes.Buffer
	w := checkm.NewWriter(&b, checkm.Object)
	for _, row := range []checkm.Row{
		{URL: "https://example.org/s/hello.txt",
			Digest: checkm.Digest{Algorithm: "MD5", Value: "b1946ac92492d2347c6235b4d2611184"}, Size: 6,
			FileName: "hello.txt"},
		{URL: "https://example.org/a%20b", Size: -1,
			Modified: time.Date(2020, 1, 2, 12, 4, 5, 999, time.FixedZone("", 3600)), FileName: " a|b ",
			MIMEType: "text/plain"},
		{URL: "https://example.org/c", Size: -1},
		{FileName: "d", Size: 0},
	} {
		if err := w.Write(row); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	want := objectHeader + `https://example.org/s/hello.txt | md5 | b1946ac92492d2347c6235b4d2611184 | 6 |  | hello.txt
https://example.org/a%20b |  |  |  | 2020-01-02T11:04:05+00:00 | %20a%7cb%20 | text/plain
https://example.org/c
 |  |  | 0 |  | d
#%eof`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	if err := w.Write(checkm.Row{URL: "https://example.org/late"}); !errors.Is(err, checkm.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestWriteHeaders(t *testing.T) {
	want := map[*checkm.Profile]string{
		checkm.Object:          objectHeader,
		checkm.BatchManifests:  batchHeader("mrt-batch-manifest"),
		checkm.BatchContainers: batchHeader("mrt-container-batch-manifest"),
		checkm.BatchFiles:      batchHeader("mrt-single-file-batch-manifest"),
		checkm.ContainerObject: `#%checkm_0.7
#%profile | http://uc3.cdlib.org/registry/store/manifest/mrt-object-manifest
#%prefix | nfo:<http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#>
#%prefix | nie:<http://www.semanticdesktop.org/ontologies/2007/01/19/nie/#>
#%prefix | mrt:<http://uc3.cdlib.org/ontology/mrt/mom#>
#%columns | nfo:fileName | nfo:hashAlgorithm | nfo:hashValue | nfo:fileSize | nfo:fileLastModified | nie:mimeType
`,
		checkm.Add: `#%checkm_0.7
#%profile | http://uc3.cdlib.org/registry/store/manifest/mrt-add-manifest
#%prefix | nfo:<http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#>
#%prefix | nie:<http://www.semanticdesktop.org/ontologies/2007/01/19/nie/#>
#%prefix | mrt:<http://uc3.cdlib.org/ontology/mrt/mom#>
#%columns | nfo:fileUrl | nfo:hashAlgorithm | nfo:hashValue | nfo:fileSize | nfo:fileLastModified | nfo:fileName | nie:mimeType
`,
	}
	for _, p := range checkm.Profiles() {
		var b bytes.Buffer
		if err := checkm.NewWriter(&b, p).Close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[p]+"#%eof", b.String()); diff != "" {
			t.Error(p, diff)
		}
		r := checkm.NewReader("m", &b, checkm.Options{Strict: true})
		if rows, err := readAll(r); err != nil || rows != nil || r.Warnings() != nil {
			t.Errorf("%v: read back: %v, %v, %v", p, rows, err, r.Warnings())
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	const u = "https://h/a"
	tests := []struct {
		name    string
		profile *checkm.Profile
		row     checkm.Row
		err     string
	}{
		{"nothing", checkm.Object, checkm.Row{Size: 5}, "6:1: expected a URL or a file name, found nothing"},
		{"no name", checkm.ContainerObject, checkm.Row{}, "7:1: expected a URL or a file name, found nothing"},
		{"no column", checkm.Object, checkm.Row{URL: u, Title: "t"},
			"6: expected no title in a row of mrt-ingest-manifest, found one"},
		{"URL in a container", checkm.ContainerObject, checkm.Row{URL: u, FileName: "a"},
			"7: expected no fileUrl in a row of mrt-object-manifest, found one"},
		{"other URL", checkm.Object, checkm.Row{URL: "s3://u:p@b/a"},
			`6:1: expected an http, https, ftp or file URL, found "s3://***@b/a"`},
		{"bar in the URL", checkm.Object,
			checkm.Row{URL: "http://h/|a"},
			`6:1: expected a URL without "|", line ends and blanks around it, found "http://h/|a"`},
		{"line in the URL", checkm.Object,
			checkm.Row{URL: "http://h/a\n#%eof"},
			`6:1: expected a URL without "|", line ends and blanks around it, found "http://h/a\n#%eof"`},
		{"line in a name", checkm.Object,
			checkm.Row{URL: u, FileName: "a\n#%eof"},
			`6:28: expected UTF-8 text without line ends and NUL, found "a\n#%eof"`},
		{"CR in a title", checkm.BatchFiles, checkm.Row{URL: u, Title: "a\rb"},
			`6:40: expected UTF-8 text without line ends and NUL, found "a\rb"`},
		{"NUL", checkm.Object, checkm.Row{URL: u, MIMEType: "a\x00"},
			`6:31: expected UTF-8 text without line ends and NUL, found "a\x00"`},
		{"not UTF-8", checkm.Object, checkm.Row{URL: u, FileName: "\xff"},
			`6:28: expected UTF-8 text without line ends and NUL, found "\xff"`},
		{"escape", checkm.Object,
			checkm.Row{URL: u, FileName: "a%20b"},
			`6:28: expected no "%20" and "%7c", which would be read as " " and "|", found "a%20b"`},
		{"escaped bar", checkm.Object,
			checkm.Row{URL: u, FileName: "a%7cb"},
			`6:28: expected no "%20" and "%7c", which would be read as " " and "|", found "a%7cb"`},
		{"tab", checkm.Object, checkm.Row{URL: u, FileName: "\ta"},
			`6:28: expected no tab or other white space around a field, found "\ta"`},
		{"parent", checkm.Object,
			checkm.Row{URL: u, FileName: "../a"},
			`6:28: expected a file name below the object's folder (no ".."), found "../a"`},
		{"name from the URL", checkm.Object, checkm.Row{URL: "http://h/"}, `6:26: expected a file name, found nothing`},
		{"algorithm", checkm.Object, checkm.Row{URL: u, Digest: checkm.Digest{Algorithm: "sha_1", Value: "x"}},
			`6:15: expected a digest algorithm (adler32, crc32, md2, md5, sha1, sha256, sha384, sha512) and a value, ` +
				`found "sha_1"`},
		{"half a digest", checkm.Object, checkm.Row{URL: u, Digest: checkm.Digest{Algorithm: "md5"}},
			`6:15: expected a digest algorithm (adler32, crc32, md2, md5, sha1, sha256, sha384, sha512) and a value, ` +
				`found "md5"`},
		{"date", checkm.Object, checkm.Row{URL: u, Modified: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
			`6:25: expected a date in the years 0 to 9999, found "10000-01-01T00:00:00+00:00"`},
		{"comment", checkm.ContainerObject, checkm.Row{FileName: "#a"},
			`7:1: expected no "#" at the start of a row, found "#a"`},
		{"length", checkm.Object,
			checkm.Row{URL: u, FileName: strings.Repeat("x", 64<<10)},
			"6:1: expected a line of at most 64 KiB, found 65563 bytes"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var b bytes.Buffer
			w := checkm.NewWriter(&b, test.profile)
			verdict(t, w.Write(test.row), test.err)
			good := checkm.Row{FileName: "good", Size: -1}
			if err := errors.Join(w.Write(good), w.Close()); err != nil {
				t.Fatal(err)
			}
			rows, err := readAll(checkm.NewReader("", &b, checkm.Options{}))
			if err != nil || len(rows) != 1 || rows[0].FileName != "good" {
				t.Errorf("after the refusal: %v, %v", rows, err)
			}
		})
	}
}

type full struct{ free int }

var errFull = errors.New("no space left")

func (f *full) Write(p []byte) (int, error) {
	n := min(f.free, len(p))
	f.free -= n
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

func TestWriteFailure(t *testing.T) {
	w := checkm.NewWriter(&full{free: 40 << 10}, checkm.Object)
	failed := -1
	for i := range 4000 {
		if err := w.Write(checkm.Row{URL: "https://example.org/a.txt"}); err != nil {
			if !errors.Is(err, errFull) {
				t.Fatal(err)
			}
			failed = i
			break
		}
	}
	if failed < 0 {
		t.Error("no write failed")
	}
	for range 2 {
		if err := w.Close(); !errors.Is(err, errFull) {
			t.Errorf("Close: %v", err)
		}
	}
	if err := checkm.NewWriter(&full{}, checkm.Add).Close(); !errors.Is(err, errFull) {
		t.Errorf("Close of an empty manifest: %v", err)
	}
}
