package checkm_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stagepost/stagepost/format/checkm"
)

// value draws text that needs escapes and trimming more often than not.
var value = rapid.OneOf(
	rapid.String(),
	rapid.StringOf(rapid.SampledFrom([]rune(" |%270cC#;/.\\aä\t\n\x00"))),
	rapid.SampledFrom([]string{"", " ", "|", "%", "%2", "20", "%20", "%7C", "#%eof", " | ", "a/b"}),
)

func draw(t *rapid.T, p *checkm.Profile) checkm.Row {
	row := checkm.Row{Size: rapid.Int64Min(-1).Draw(t, "size"), FileName: value.Draw(t, "name")}
	if p.Has(checkm.FileURL) {
		row.URL = rapid.SampledFrom([]string{"", "https://example.org/a%20b/c", "http://h", "FILE:///x#y",
			"ftp://u:p@h:21/p?q= |"}).Draw(t, "URL")
	}
	if rapid.Bool().Draw(t, "digest") {
		row.Digest.Algorithm = rapid.SampledFrom([]checkm.Algorithm{checkm.Adler32, checkm.MD2, checkm.MD5,
			checkm.SHA512}).Draw(t, "algorithm")
		row.Digest.Value = value.Draw(t, "digest value")
	}
	if rapid.Bool().Draw(t, "date") {
		row.Modified = time.Unix(rapid.Int64Range(-1<<33, 1<<37).Draw(t, "seconds"), 0)
	}
	if p.Has(checkm.MIMEType) {
		row.MIMEType = value.Draw(t, "type")
	}
	if p.Batch() {
		row.PrimaryID, row.LocalID = value.Draw(t, "primary"), value.Draw(t, "local")
		row.Creator, row.Title, row.Date = value.Draw(t, "creator"), value.Draw(t, "title"),
			value.Draw(t, "of the object")
	}
	return row
}

// TestRoundTrip holds that a row which the Writer takes comes back as it was, and that one which it refuses leaves no
// trace.
func TestRoundTrip(t *testing.T) {
	taken, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(checkm.Profiles()).Draw(t, "profile")
		var b bytes.Buffer
		w := checkm.NewWriter(&b, p)
		var want []checkm.Row
		for range rapid.IntRange(0, 8).Draw(t, "rows") {
			row := draw(t, p)
			err := w.Write(row)
			if e := (*checkm.Error)(nil); errors.As(err, &e) {
				refused++
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			taken++
			if row.FileName == "" {
				_, rest, _ := strings.Cut(row.URL, "//")
				_, row.FileName, _ = strings.Cut(rest, "/")
				row.FileName, _, _ = strings.Cut(row.FileName, "#")
				row.FileName, _, _ = strings.Cut(row.FileName, "?")
			}
			row.Line = len(want) + 1 + headerLines(p)
			want = append(want, row)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r := checkm.NewReader("m", bytes.NewReader(b.Bytes()), checkm.Options{Allow: []*checkm.Profile{p}})
		got, err := readAll(r)
		if err != nil {
			t.Fatalf("%v in\n%s", err, b.Bytes())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s in\n%s", diff, b.Bytes())
		}
		if w := r.Warnings(); w != nil {
			t.Fatal(w)
		}
	})
	if taken == 0 || refused == 0 {
		t.Errorf("the rows prove nothing: %d taken, %d refused", taken, refused)
	}
}

func headerLines(p *checkm.Profile) int {
	if p == checkm.ContainerObject || p == checkm.Add {
		return 6
	}
	return 5
}
