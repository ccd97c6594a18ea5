package checkm_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/format/checkm"
)

const (
	objectHeader = `#%checkm_0.7
#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-manifest
#%prefix | mrt: | http://merritt.cdlib.org/terms#
#%prefix | nfo: | http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#
#%fields | nfo:fileUrl | nfo:hashAlgorithm | nfo:hashValue | nfo:fileSize | nfo:fileLastModified | nfo:fileName | mrt:mimeType
`
	rowA = "https://example.org/s/a.txt | md5 | b1946ac92492d2347c6235b4d2611184 | 6 |  | a.txt\n"
	rowB = "https://example.org/s/b.txt | sha-256 | " +
		"5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03 | 6 |  | b.txt | text/plain\n"
	objectURL = "http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-manifest"
	batchRow  = "https://example.org/s/%s |  |  |  |  | %s | %s | loc1;loc2 | A. Person | A title | 2009-09-01\n"
)

func batchHeader(profile string) string {
	return "#%checkm_0.7\n#%profile | http://uc3.cdlib.org/registry/ingest/manifest/" + profile + `
#%prefix | mrt: | http://merritt.cdlib.org/terms#
#%prefix | nfo: | http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#
#%fields | nfo:fileUrl | nfo:hashAlgorithm | nfo:hashValue | nfo:fileSize | nfo:fileLastModified | nfo:fileName | mrt:primaryIdentifier | mrt:localIdentifier | mrt:creator | mrt:title | mrt:date
`
}

// batch is a batch manifest with one row.
func batch(profile, name, ark string) string {
	row := batchRow
	for _, v := range []string{name, name, ark} {
		row = strings.Replace(row, "%s", v, 1)
	}
	return batchHeader(profile) + row + "#%eof\n"
}

func without(text, line string) string {
	var kept []string
	for l := range strings.SplitAfterSeq(text, "\n") {
		if !strings.HasPrefix(l, line) {
			kept = append(kept, l)
		}
	}
	return strings.Join(kept, "")
}

func readAll(r *checkm.Reader) ([]checkm.Row, error) {
	var rows []checkm.Row
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
}

// verdict compares an error with the wanted message, "" for none.
func verdict(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
		if e := (*checkm.Error)(nil); !errors.As(err, &e) {
			t.Errorf("error %T is no *checkm.Error", err)
		}
	}
	if got != want {
		t.Errorf("error\n got %s\nwant %s", got, want)
	}
}

// manifests has a file for each kind of case that the parser of the Merritt queue was probed with, and the result in
// both modes.
var manifests = []struct {
	name    string
	text    string
	rows    int    // in default mode
	err     string // in default mode
	strict  string
	warned  int // warnings in strict mode, where it accepts
	oddness int // warnings in default mode
}{
	{name: "plain", text: objectHeader + rowA + rowB + "#%eof\n", rows: 2},
	{name: "no newline after eof", text: objectHeader + rowA + rowB + "#%eof", rows: 2},
	{name: "two newlines after eof", text: objectHeader + rowA + "#%eof\n\n", rows: 1,
		err:    "m.checkm:8:1: expected the end of the file after #%eof, found an empty line",
		strict: "m.checkm:8:1: expected the end of the file after #%eof, found an empty line"},
	{name: "no eof", text: objectHeader + rowA, rows: 1,
		err:    "m.checkm:7:1: expected #%eof, found end of file",
		strict: "m.checkm:7:1: expected #%eof, found end of file"},
	{name: "no eof, cut in a row", text: objectHeader + rowA + "https://example.org/", rows: 1,
		err: `m.checkm:7:1: expected a file name, as the path of the URL where no name is given, found ` +
			`"https://example.org/"`,
		strict: `m.checkm:7:1: expected a file name, as the path of the URL where no name is given, found ` +
			`"https://example.org/"`},
	{name: "row after eof", text: objectHeader + "#%eof\n" + rowA + "#%eof\n",
		err: `m.checkm:7:1: expected the end of the file after #%eof, found "https://example.org/s/a.txt | md5 | ` +
			`b1946ac92492d2347c6235b4…"`,
		strict: `m.checkm:7:1: expected the end of the file after #%eof, found "https://example.org/s/a.txt | md5 | ` +
			`b1946ac92492d2347c6235b4…"`},
	{name: "upper-case eof", text: objectHeader + rowA + "#%EOF\n", rows: 1,
		strict: `m.checkm:7:1: expected #%eof, found "#%EOF"`},
	{name: "text after eof", text: objectHeader + rowA + "#%eof: 1 row\n", rows: 1,
		strict: `m.checkm:7:1: expected #%eof, found "#%eof: 1 row"`},
	{name: "no rows", text: objectHeader + "#%eof\n"},
	{name: "no declaration", text: without(objectHeader, "#%checkm") + rowA + "#%eof\n", rows: 1, warned: 1},
	{name: "no prefixes", text: without(objectHeader, "#%prefix") + rowA + "#%eof\n", rows: 1, warned: 2},
	{name: "other prefixes", text: strings.Replace(objectHeader, "terms#", "other#", 1) + rowA + "#%eof\n", rows: 1,
		warned: 1},
	{name: "prefix in brackets",
		text: strings.Replace(objectHeader,
			"mrt: | http://merritt.cdlib.org/terms#", "mrt:<http://merritt.cdlib.org/terms#>", 1) + rowA + "#%eof\n",
		rows: 1},
	{name: "odd prefix line", text: strings.Replace(objectHeader, "mrt: |", "mrt |", 1) + rowA + "#%eof\n", rows: 1,
		warned: 2},
	{name: "no fields", text: without(objectHeader, "#%fields") + rowA + "#%eof\n", rows: 1, warned: 1},
	{name: "columns for fields", text: strings.Replace(objectHeader, "#%fields", "#%columns", 1) + rowA + "#%eof\n",
		rows: 1},
	{name: "no profile", text: without(objectHeader, "#%profile") + rowA + "#%eof\n",
		err: `m.checkm:5:1: expected #%profile | URL before the first row, found "https://example.org/s/a.txt | ` +
			`md5 | b1946ac92492d2347c6235b4…"`,
		strict: `m.checkm:5:1: expected #%profile | URL before the first row, found "https://example.org/s/a.txt | ` +
			`md5 | b1946ac92492d2347c6235b4…"`},
	{name: "no profile and no rows", text: "#%checkm_0.7\n#%eof\n",
		err:    "m.checkm:2:1: expected #%profile | URL before #%eof, found no profile",
		strict: "m.checkm:2:1: expected #%profile | URL before #%eof, found no profile"},
	{name: "upper-case profile", text: strings.Replace(objectHeader, "#%profile", "#%PROFILE", 1) + "#%eof\n",
		err:    "m.checkm:6:1: expected #%profile | URL before #%eof, found no profile",
		strict: "m.checkm:6:1: expected #%profile | URL before #%eof, found no profile"},
	{name: "profile without blank", text: strings.Replace(objectHeader, "#%profile |", "#%profile|", 1) + "#%eof\n",
		err:    "m.checkm:6:1: expected #%profile | URL before #%eof, found no profile",
		strict: "m.checkm:6:1: expected #%profile | URL before #%eof, found no profile"},
	{name: "profile without bar", text: strings.Replace(objectHeader, "#%profile |", "#%profile", 1) + rowA + "#%eof\n",
		rows: 1, warned: 1},
	{name: "profile behind two bars",
		text: strings.Replace(objectHeader, "#%profile |", "#%profile | |", 1) + rowA + "#%eof\n", rows: 1},
	{name: "profile without URL", text: "#%profile |\n" + rowA + "#%eof\n",
		err:    "m.checkm:1:10: expected the URL of a profile, found nothing",
		strict: "m.checkm:1:10: expected the URL of a profile, found nothing"},
	{name: "unknown profile without bar",
		text: strings.Replace(objectHeader, "#%profile | http://uc3", "#%profile http://uc4", 1) + rowA + "#%eof\n",
		err: `m.checkm:2:11: expected the URL of mrt-ingest-manifest, mrt-batch-manifest, ` +
			`mrt-container-batch-manifest, mrt-single-file-batch-manifest, mrt-object-manifest or mrt-add-manifest, ` +
			`found "http://uc4.cdlib.org/registry/ingest/manifest/mrt-ingest-man…"`,
		strict: `m.checkm:2:11: expected the URL of mrt-ingest-manifest, mrt-batch-manifest, ` +
			`mrt-container-batch-manifest, mrt-single-file-batch-manifest, mrt-object-manifest or mrt-add-manifest, ` +
			`found "http://uc4.cdlib.org/registry/ingest/manifest/mrt-ingest-man…"`},
	{name: "two ends", text: objectHeader + rowA + "#%eof\n#%eof\n", rows: 1,
		strict: `m.checkm:8:1: expected the end of the file after #%eof, found "#%eof"`},
	{name: "two ends with a blank line between", text: objectHeader + rowA + "#%eof\n\n#%eof\n", rows: 1,
		strict: `m.checkm:8:1: expected the end of the file after #%eof, found an empty line`},
	{name: "comment after eof", text: objectHeader + rowA + "#%eof\n# done\n", rows: 1,
		err:    `m.checkm:8:1: expected the end of the file after #%eof, found "# done"`,
		strict: `m.checkm:8:1: expected the end of the file after #%eof, found "# done"`},
	{name: "two manifests in one file", text: objectHeader + rowA + "#%eof\n" + objectHeader + rowB + "#%eof\n",
		rows:   2,
		strict: `m.checkm:8:1: expected the end of the file after #%eof, found "#%checkm_0.7"`},
	{name: "two manifests with a blank line between",
		text: objectHeader + rowA + "#%eof\n\n" + objectHeader + rowB + "#%eof\n", rows: 2,
		strict: `m.checkm:8:1: expected the end of the file after #%eof, found an empty line`},
	{name: "second manifest cut in its rows", text: objectHeader + rowA + "#%eof\n" + objectHeader + rowB, rows: 2,
		err:    "m.checkm:14:1: expected #%eof, found end of file",
		strict: `m.checkm:8:1: expected the end of the file after #%eof, found "#%checkm_0.7"`},
	{name: "second manifest cut in its header", text: objectHeader + rowA + "#%eof\n#%checkm_0.7\n", rows: 1,
		err:    "m.checkm:9:1: expected #%eof, found end of file",
		strict: `m.checkm:8:1: expected the end of the file after #%eof, found "#%checkm_0.7"`},
	{name: "second manifest of another profile",
		text: objectHeader + rowA + "#%eof\n" + batch("mrt-batch-manifest", "first.checkm", ""), rows: 1,
		err: `m.checkm:9:13: expected the URL of mrt-ingest-manifest, as in the manifest before, found ` +
			`"http://uc3.cdlib.org/registry/ingest/manifest/mrt-batch-mani…"`,
		strict: `m.checkm:8:1: expected the end of the file after #%eof, found "#%checkm_0.7"`},
	{name: "second manifest without a profile", text: objectHeader + rowA + "#%eof\n#%checkm_0.7\n" + rowB + "#%eof\n",
		rows: 1,
		err: `m.checkm:9:1: expected #%profile | URL before the first row, found "https://example.org/s/b.txt | ` +
			`sha-256 | 5891b5b522d5df086d0f…"`,
		strict: `m.checkm:8:1: expected the end of the file after #%eof, found "#%checkm_0.7"`},
	{name: "second manifest, the first without its end", text: objectHeader + rowA + objectHeader + rowB + "#%eof\n",
		rows:   1,
		err:    `m.checkm:7:1: expected headers only before the first row, found "#%checkm_0.7"`,
		strict: `m.checkm:7:1: expected headers only before the first row, found "#%checkm_0.7"`},
	{name: "no header at all", text: rowA + "#%eof\n",
		err: `m.checkm:1:1: expected #%profile | URL before the first row, found "https://example.org/s/a.txt | ` +
			`md5 | b1946ac92492d2347c6235b4…"`,
		strict: `m.checkm:1:1: expected #%profile | URL before the first row, found "https://example.org/s/a.txt | ` +
			`md5 | b1946ac92492d2347c6235b4…"`},
	{name: "unknown profile", text: strings.Replace(objectHeader, "mrt-ingest-manifest", "mrt-other", 1) + rowA +
		"#%eof\n",
		err: `m.checkm:2:13: expected the URL of mrt-ingest-manifest, mrt-batch-manifest, ` +
			`mrt-container-batch-manifest, mrt-single-file-batch-manifest, mrt-object-manifest or mrt-add-manifest, ` +
			`found "http://uc3.cdlib.org/registry/ingest/manifest/mrt-other"`,
		strict: `m.checkm:2:13: expected the URL of mrt-ingest-manifest, mrt-batch-manifest, ` +
			`mrt-container-batch-manifest, mrt-single-file-batch-manifest, mrt-object-manifest or mrt-add-manifest, ` +
			`found "http://uc3.cdlib.org/registry/ingest/manifest/mrt-other"`},
	{name: "older profile URL", text: strings.Replace(objectHeader, "ingest/manifest", "mrt", 1) + rowA + "#%eof\n",
		rows: 1,
		strict: `m.checkm:2:13: expected "http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-man…", found ` +
			`"http://uc3.cdlib.org/registry/mrt/mrt-ingest-manifest"`},
	{name: "second profile", text: objectHeader + "#%profile | http://example.org/other\n" + rowA + "#%eof\n", rows: 1,
		strict: `m.checkm:6:1: expected no #%profile after #%fields, found "#%profile | http://example.org/other"`},
	{name: "headers in another order", text: "#%profile | " + objectURL + "\n#%checkm_0.7\n" + rowA + "#%eof\n",
		rows:   1,
		strict: `m.checkm:2:1: expected no #%checkm_0.7 after #%profile, found "#%checkm_0.7"`},
	{name: "unknown header",
		text: strings.Replace(objectHeader, "#%prefix | mrt", "#%note | x\n#%prefix | mrt", 1) + rowA + "#%eof\n",
		rows: 1, warned: 1},
	{name: "fields and rows reordered",
		text: strings.Replace(objectHeader, "nfo:fileUrl | nfo:hashAlgorithm", "nfo:hashAlgorithm | nfo:fileUrl", 1) +
			"md5 | https://example.org/s/a.txt | b1946ac92492d2347c6235b4d2611184 | 6 |  | a.txt\n#%eof\n",
		err: `m.checkm:6:7: expected a digest algorithm (adler32, crc32, md2, md5, sha1, sha256, sha384, sha512), ` +
			`found "https://example.org/s/a.txt"`,
		strict: `m.checkm:5:12: expected the field nfo:fileUrl, found "nfo:hashAlgorithm"`},
	{name: "fields reordered, rows not",
		text: strings.Replace(objectHeader, "nfo:fileUrl | nfo:hashAlgorithm", "nfo:hashAlgorithm | nfo:fileUrl", 1) +
			rowA + "#%eof\n", rows: 1,
		strict: `m.checkm:5:12: expected the field nfo:fileUrl, found "nfo:hashAlgorithm"`},
	{name: "one field too many in the header",
		text: strings.Replace(objectHeader, "mrt:mimeType", "mrt:mimeType | x:y", 1) + rowA + "#%eof\n", rows: 1,
		strict: "m.checkm:5:130: expected 7 fields, found 8"},
	{name: "fields in other spelling",
		text: strings.Replace(objectHeader, "nfo:fileUrl | nfo:hashAlgorithm", "FILEURL | NFO:HASHALGORITHM", 1) +
			rowA + "#%eof\n", rows: 1},
	{name: "header between rows", text: objectHeader + rowA + "#%fields | x\n" + rowB + "#%eof\n", rows: 1,
		err:    `m.checkm:7:1: expected headers only before the first row, found "#%fields | x"`,
		strict: `m.checkm:7:1: expected headers only before the first row, found "#%fields | x"`},
	{name: "header after the rows", text: objectHeader + rowA + "#%note | x\n#%eof\n", rows: 1,
		strict: `m.checkm:7:1: expected headers only before the first row, found "#%note | x"`},
	{name: "comments", text: "# first\n" + objectHeader + "# a\n" + rowA + "#b\n" + rowB + "#\n#%eof\n", rows: 2},
	{name: "blank line before rows", text: objectHeader + "\n" + rowA + "#%eof\n", rows: 1},
	{name: "blank line within rows", text: objectHeader + rowA + "\n \t\n" + rowB + "#%eof\n", rows: 2},
	{name: "blank line after rows", text: objectHeader + rowA + "\n\n#%eof\n", rows: 1},
	{name: "CRLF", text: strings.ReplaceAll(objectHeader+rowA+rowB+"#%eof\n", "\n", "\r\n"), rows: 2},
	{name: "upper-case algorithm", text: objectHeader + strings.Replace(rowA, "md5", "MD5", 1) + "#%eof\n", rows: 1},
	{name: "upper-case algorithm with hyphen",
		text: objectHeader + strings.Replace(rowB, "sha-256", "SHA-256", 1) + "#%eof\n", rows: 1},
	{name: "hyphen in a name that has none in strict mode",
		text: objectHeader + strings.Replace(rowA, "md5", "MD-5", 1) + "#%eof\n", rows: 1,
		strict: `m.checkm:6:31: expected md5 or sha-256, found "MD-5"`},
	{name: "algorithm without hyphen", text: objectHeader + strings.Replace(rowB, "sha-256", "sha256", 1) + "#%eof\n",
		rows: 1, strict: `m.checkm:6:31: expected md5 or sha-256, found "sha256"`},
	{name: "algorithm of the default mode only",
		text: objectHeader + strings.Replace(rowA, "md5", "crc32", 1) + "#%eof\n", rows: 1,
		strict: `m.checkm:6:31: expected md5 or sha-256, found "crc32"`},
	{name: "algorithm with underscore", text: objectHeader + strings.Replace(rowB, "sha-256", "sha_256", 1) + "#%eof\n",
		err: `m.checkm:6:31: expected a digest algorithm (adler32, crc32, md2, md5, sha1, sha256, sha384, ` +
			`sha512), found "sha_256"`,
		strict: `m.checkm:6:31: expected a digest algorithm (adler32, crc32, md2, md5, sha1, sha256, sha384, ` +
			`sha512), found "sha_256"`},
	{name: "algorithm of another family",
		text: objectHeader + strings.Replace(rowB, "sha-256", "sha3-256", 1) + "#%eof\n",
		err: `m.checkm:6:31: expected a digest algorithm (adler32, crc32, md2, md5, sha1, sha256, sha384, ` +
			`sha512), found "sha3-256"`,
		strict: `m.checkm:6:31: expected a digest algorithm (adler32, crc32, md2, md5, sha1, sha256, sha384, ` +
			`sha512), found "sha3-256"`},
	{name: "algorithm without value", text: objectHeader + "https://example.org/a | sha_256 |  | 6\n#%eof\n", rows: 1,
		strict: `m.checkm:6:25: expected md5 or sha-256, found "sha_256"`},
	{name: "known algorithm without value", text: objectHeader + "https://example.org/a | md5 |  | 6\n#%eof\n", rows: 1,
		strict: "m.checkm:6:25: expected an algorithm with a value, found \"md5\""},
	{name: "value without algorithm",
		text: objectHeader + "https://example.org/a |  | b1946ac92492d2347c6235b4d2611184\n#%eof\n", rows: 1,
		strict: "m.checkm:6:28: expected a value with an algorithm, found \"b1946ac92492d2347c6235b4d2611184\""},
	{name: "md5 of wrong length", text: objectHeader + strings.Replace(rowA, "b1946", "1946", 1) + "#%eof\n", rows: 1,
		strict: `m.checkm:6:37: expected 32 lower-case hexadecimal digits of md5, found ` +
			`"1946ac92492d2347c6235b4d2611184"`},
	{name: "sha256 with a letter that is no digit",
		text: objectHeader + strings.Replace(rowB, "5891b", "x891b", 1) + "#%eof\n", rows: 1,
		strict: `m.checkm:6:41: expected 64 lower-case hexadecimal digits of sha256, found ` +
			`"x891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6…"`},
	{name: "bad file size", text: objectHeader + strings.Replace(rowA, "| 6 |", "| 12x |", 1) + "#%eof\n",
		err:    `m.checkm:6:72: expected a file size in bytes, found "12x"`,
		strict: `m.checkm:6:72: expected a file size in bytes, found "12x"`},
	{name: "file size beyond 64 bits",
		text:   objectHeader + strings.Replace(rowA, "| 6 |", "| 9223372036854775808 |", 1) + "#%eof\n",
		err:    `m.checkm:6:72: expected a file size in bytes, found "9223372036854775808"`,
		strict: `m.checkm:6:72: expected a file size in bytes, found "9223372036854775808"`},
	{name: "negative file size", text: objectHeader + strings.Replace(rowA, "| 6 |", "| -6 |", 1) + "#%eof\n", rows: 1,
		oddness: 1,
		strict:  `m.checkm:6:72: expected a file size without sign, found "-6"`},
	{name: "dates", text: objectHeader + strings.Replace(rowA, "6 |  |", "6 | 2020-01-02T11:04:05+00:00 |", 1) +
		"#%eof\n", rows: 1},
	{name: "bad date", text: objectHeader + strings.Replace(rowA, "6 |  |", "6 | last week |", 1) + "#%eof\n",
		rows: 1, warned: 1, oddness: 1},
	{name: "URL with other protocol", text: objectHeader + rowB + strings.Replace(rowA, "https", "htps", 1) + "#%eof\n",
		rows:   1,
		err:    `m.checkm:7:1: expected an http, https, ftp or file URL, found "htps://example.org/s/a.txt"`,
		strict: `m.checkm:7:1: expected an http, https, ftp or file URL, found "htps://example.org/s/a.txt"`},
	{name: "ftp URL", text: objectHeader + strings.Replace(rowA, "https", "FTP", 1) + "#%eof\n", rows: 1,
		strict: `m.checkm:6:1: expected an http or https URL, found "FTP://example.org/s/a.txt"`},
	{name: "URL with bad port",
		text:   objectHeader + strings.Replace(rowA, "example.org", "example.org:x", 1) + "#%eof\n",
		err:    `m.checkm:6:1: expected an http, https, ftp or file URL, found "https://example.org:x/s/a.txt"`,
		strict: `m.checkm:6:1: expected an http, https, ftp or file URL, found "https://example.org:x/s/a.txt"`},
	{name: "URL with short host", text: objectHeader + strings.Replace(rowA, "example.org", "example", 1) + "#%eof\n",
		rows:   1,
		strict: `m.checkm:6:1: expected a URL with a full host name, found "https://example/s/a.txt"`},
	{name: "URL of an inclusion", text: objectHeader + "@" + rowA + "#%eof\n",
		err:    `m.checkm:6:1: expected an http, https, ftp or file URL, found "@https://example.org/s/a.txt"`,
		strict: `m.checkm:6:1: expected an http, https, ftp or file URL, found "@https://example.org/s/a.txt"`},
	{name: "URL with percent signs",
		text: objectHeader + strings.Replace(rowA, "s/a.txt", "s/a%20%7cb.txt?q=%7C", 1) + "#%eof\n", rows: 1},
	{name: "no URL", text: objectHeader + strings.TrimPrefix(rowA, "https://example.org/s/a.txt") + "#%eof\n", rows: 1,
		strict: "m.checkm:6:2: expected a URL, found nothing"},
	{name: "no name", text: objectHeader +
		"https://example.org/s/a.txt | md5 | b1946ac92492d2347c6235b4d2611184 | 6\n#%eof\n", rows: 1},
	{name: "neither URL nor name", text: objectHeader + " | md5 | b1946ac92492d2347c6235b4d2611184 | 6\n#%eof\n",
		err:    "m.checkm:6:46: expected a URL or a file name, found nothing",
		strict: "m.checkm:6:46: expected a URL or a file name, found nothing"},
	{name: "a field too many", text: objectHeader + strings.TrimSuffix(rowB, "\n") + " | x\n#%eof\n", rows: 1,
		strict: "m.checkm:6:136: expected at most 7 fields, found 8"},
	{name: "a bar too many", text: objectHeader + strings.TrimSuffix(rowB, "\n") + " |\n#%eof\n", rows: 1,
		strict: "m.checkm:6:135: expected at most 7 fields, found 8"},
	{name: "name twice", text: objectHeader + rowA + rowA + "#%eof\n", rows: 2,
		strict: `m.checkm:7:79: expected a file name that is not in line 6, found "a.txt"`},
	{name: "name twice, once from the URL", text: objectHeader + rowA + "https://example.org/a.txt\n#%eof\n", rows: 2,
		strict: `m.checkm:7:1: expected a file name that is not in line 6, found "a.txt"`},
	{name: "name twice in other case",
		text: objectHeader + rowA + strings.Replace(rowA, "| a.txt", "| A.TXT", 1) + "#%eof\n", rows: 2},
	{name: "name twice in two folders",
		text: objectHeader + rowA + strings.Replace(rowA, "| a.txt", "| sub/a.txt", 1) + "#%eof\n", rows: 2},
	{name: "bytes that are not UTF-8",
		text: objectHeader + strings.Replace(rowA, "| a.txt", "| \xe9.txt", 1) + "#%eof\n", rows: 1, oddness: 1,
		strict: "m.checkm:6:79: expected UTF-8, found a byte that is not UTF-8"},
	{name: "bytes that are not UTF-8 in a header",
		text: "#%checkm_0.7 \xe9\n" + without(objectHeader, "#%checkm") + rowA + "#%eof\n", rows: 1, oddness: 1,
		strict: "m.checkm:1:14: expected UTF-8, found a byte that is not UTF-8"},
	{name: "replacement character",
		text: objectHeader + strings.Replace(rowA, "| a.txt", "| \ufffd.txt", 1) + "#%eof\n", rows: 1,
		strict: "m.checkm:6:79: expected text, found the replacement character U+FFFD"},
	{name: "batch of manifests", text: batch("mrt-batch-manifest", "first.checkm", "ark:/99999/fk4000000a"), rows: 1},
	{name: "batch of manifests with another file", text: batch("mrt-batch-manifest", "first.txt", ""), rows: 1,
		strict: `m.checkm:6:47: expected the name of a manifest (.checkm), found "first.txt"`},
	{name: "batch of containers", text: batch("mrt-container-batch-manifest", "first.tar.gz", ""), rows: 1},
	{name: "batch of containers with another file", text: batch("mrt-container-batch-manifest", "first.txt", ""),
		rows:   1,
		strict: `m.checkm:6:47: expected the name of a container (.tar, .zip, .tar.gz, .bz2), found "first.txt"`},
	{name: "batch of files", text: batch("mrt-single-file-batch-manifest", "first.txt", ""), rows: 1},
	{name: "batch of files with a container", text: batch("mrt-single-file-batch-manifest", "first.zip", ""), rows: 1},
	{name: "batch of files with a manifest", text: batch("mrt-single-file-batch-manifest", "first.checkm", ""), rows: 1,
		strict: `m.checkm:6:50: expected the name of a file, not of a manifest (.checkm), found "first.checkm"`},
	{name: "bad ark", text: batch("mrt-batch-manifest", "first.checkm", "ark:99999/fk4"), rows: 1,
		strict: `m.checkm:6:65: expected an ark such as ark:/99999/fk4000000a, found "ark:99999/fk4"`},
}

func TestManifests(t *testing.T) {
	for _, m := range manifests {
		t.Run(m.name, func(t *testing.T) {
			r := checkm.NewReader("m.checkm", strings.NewReader(m.text), checkm.Options{})
			rows, err := readAll(r)
			verdict(t, err, m.err)
			if len(rows) != m.rows || len(r.Warnings()) != m.oddness {
				t.Errorf("got %d rows, warnings %v; want %d rows, %d warnings", len(rows), r.Warnings(), m.rows,
					m.oddness)
			}
		})
	}
}

func TestManifestsStrict(t *testing.T) {
	for _, m := range manifests {
		t.Run(m.name, func(t *testing.T) {
			r := checkm.NewReader("m.checkm", strings.NewReader(m.text), checkm.Options{Strict: true})
			rows, err := readAll(r)
			verdict(t, err, m.strict)
			if m.strict == "" && (len(rows) != m.rows || len(r.Warnings()) != m.warned) {
				t.Errorf("got %d rows, warnings %v; want %d rows, %d warnings", len(rows), r.Warnings(), m.rows,
					m.warned)
			}
		})
	}
}

// A manifest without any header line is read when its profile is known from elsewhere; a header that lacks the
// profile is not.
func TestAssumedProfile(t *testing.T) {
	for _, m := range []struct {
		name, text string
		strict     bool
		rows       int
		err        string
	}{
		{name: "rows alone", text: rowA + rowB + "#%eof\n", rows: 2},
		{name: "a comment first", text: "# mine\n\n" + rowA + "#%eof", rows: 1},
		{name: "nothing but the end", text: "#%eof\n"},
		{name: "cut", text: rowA + rowB, rows: 2, err: "m.checkm:3:1: expected #%eof, found end of file"},
		{name: "empty", text: "", err: "m.checkm:1:1: expected #%profile | URL, found end of file"},
		{name: "a header without profile", text: "#%checkm_0.7\n" + rowA + "#%eof\n",
			err: `m.checkm:2:1: expected #%profile | URL before the first row, found "https://example.org/s/a.txt | ` +
				`md5 | b1946ac92492d2347c6235b4…"`},
		{name: "rows after the end", text: rowA + "#%eof\n" + rowB + "#%eof\n", rows: 1,
			err: `m.checkm:3:1: expected the end of the file after #%eof, found "https://example.org/s/b.txt | ` +
				`sha-256 | 5891b5b522d5df086d0f…"`},
		{name: "strict", text: rowA + "#%eof\n", strict: true,
			err: `m.checkm:1:1: expected #%profile | URL before the first row, found "https://example.org/s/a.txt | ` +
				`md5 | b1946ac92492d2347c6235b4…"`},
	} {
		t.Run(m.name, func(t *testing.T) {
			r := checkm.NewReader("m.checkm", strings.NewReader(m.text),
				checkm.Options{Assume: checkm.Object, Strict: m.strict})
			rows, err := readAll(r)
			verdict(t, err, m.err)
			if len(rows) != m.rows {
				t.Errorf("got %d rows, want %d", len(rows), m.rows)
			}
		})
	}
}
