// Package ziptest reads and writes ZIP files in tests.
package ziptest

import (
	"archive/zip"
	"bytes"
	"io"
	"maps"
	"slices"
	"testing"
)

// Files returns the entries of a ZIP file with their contents. The test fails if a name is there twice.
func Files(t testing.TB, text []byte) map[string]string {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range z.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := all[f.Name]; twice {
			t.Errorf("%s is there twice", f.Name)
		}
		all[f.Name] = string(content)
	}
	return all
}

// Zip makes a ZIP file of files by name, in the order of their names.
func Zip(files map[string]string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w, err := z.Create(name)
		if err == nil {
			_, err = io.WriteString(w, files[name])
		}
		if err != nil {
			panic(err) // it is in memory
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}
