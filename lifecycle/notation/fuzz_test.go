package notation

import (
	"os"
	"path/filepath"
	"testing"
)

func seed(f *testing.F) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) == 0 {
		f.Fatal("no documents in testdata", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
}

// sound checks the properties of every result of a parser.
func sound(t *testing.T, d *Document, err error) {
	t.Helper()
	if (d == nil) == (err == nil) {
		t.Fatalf("document %v with error %v", d, err)
	}
	if err != nil {
		if problems, ok := err.(Problems); !ok || len(problems) == 0 {
			t.Fatalf("error %v is not a list of problems", err)
		}
		return
	}
	for _, p := range d.Lint() {
		if p.Line < 1 || p.Column < 1 || p.Message == "" || p.Rule == "" {
			t.Fatalf("problem without a position or a sentence: %+v", p)
		}
	}
	if table, err := d.Table(); err == nil {
		again, err := ParseYAML("again", WriteYAML(table))
		if err != nil || len(again.Stages) != len(d.Stages) {
			t.Fatalf("a table that was written cannot be read: %v", err)
		}
	}
}

func FuzzParseYAML(f *testing.F) {
	seed(f)
	f.Add([]byte(shop))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := ParseYAML("fuzz.yaml", text)
		sound(t, d, err)
	})
}

func FuzzParseMermaid(f *testing.F) {
	seed(f)
	f.Add([]byte("flowchart LR\nA[x] & B --> C{d} -. e .-> F;G\nsubgraph x\nend"))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := ParseMermaid("fuzz.mmd", text)
		sound(t, d, err)
	})
}

func FuzzLint(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, p := range Lint("fuzz", text) {
			if p.Line < 1 || p.Column < 1 {
				t.Fatalf("problem without a position: %+v", p)
			}
		}
	})
}
