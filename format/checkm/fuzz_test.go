package checkm_test

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/format/checkm"
)

// FuzzRead holds for any input: no panic; an error is an *Error inside the file and stays; a name never leaves its
// folder; strict accepts no more than the default; and rows come back from a Writer if it takes them.
func FuzzRead(f *testing.F) {
	for _, m := range manifests {
		f.Add([]byte(m.text))
	}
	f.Add([]byte("\xef\xbb\xbf#%checkm_0.7\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := checkm.NewReader("m", bytes.NewReader(data), checkm.Options{MaxLine: 4096})
		rows, err := readAll(r)
		checkFault(t, err, data)
		if _, again := r.Read(); err != nil && again != err || err == nil && again != io.EOF {
			t.Errorf("first %v, then %v", err, again)
		}
		for _, row := range rows {
			if !filepath.IsLocal(row.FileName) || row.Size < -1 ||
				(row.Digest.Algorithm == "") != (row.Digest.Value == "") {
				t.Errorf("row %+v", row)
			}
		}
		strict := checkm.NewReader("m", bytes.NewReader(data), checkm.Options{MaxLine: 4096, Strict: true})
		strictRows, strictErr := readAll(strict)
		checkFault(t, strictErr, data)
		if strictErr == nil && (err != nil || len(strictRows) != len(rows)) {
			t.Errorf("strict takes %d rows, the default %d and %v", len(strictRows), len(rows), err)
		}
		if p, perr := r.Profile(); perr == nil && err == nil {
			rewrite(t, p, rows)
		}
	})
}

func checkFault(t *testing.T, err error, data []byte) {
	e := (*checkm.Error)(nil)
	if err == nil {
		return
	}
	if !errors.As(err, &e) {
		t.Fatalf("%T is no *checkm.Error: %v", err, err)
	}
	if e.Line < 1 || e.Line > bytes.Count(data, []byte("\n"))+2 || e.Column < 1 || e.Column > len(data)+1 ||
		strings.ContainsAny(err.Error(), "\n\r\x00") {
		t.Errorf("position or text of %v", err)
	}
}

func rewrite(t *testing.T, p *checkm.Profile, rows []checkm.Row) {
	var b bytes.Buffer
	w := checkm.NewWriter(&b, p)
	var taken []checkm.Row
	for _, row := range rows {
		if w.Write(row) == nil {
			taken = append(taken, row)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	back, err := readAll(checkm.NewReader("m", &b, checkm.Options{MaxLine: checkm.DefaultMaxLine}))
	if err != nil || len(back) != len(taken) {
		t.Fatalf("wrote %d rows, got %d back: %v", len(taken), len(back), err)
	}
	for i := range back {
		taken[i].Line, back[i].Line = 0, 0
		taken[i].Modified, back[i].Modified = taken[i].Modified.Truncate(1e9), back[i].Modified.Truncate(1e9)
		if taken[i] != back[i] {
			t.Fatalf("wrote %+v, got %+v", taken[i], back[i])
		}
	}
}
