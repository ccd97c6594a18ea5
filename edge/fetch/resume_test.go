package fetch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Cut at every 4 KiB of a 1 MiB file and called again, with servers that can and cannot continue.
func TestCutAnywhereAndCalledAgain(t *testing.T) {
	const size = 1 << 20
	data := payload(size)
	digest := Want{Algorithm: "sha256", Digest: sha(data), Size: size}
	c := newClient(t, local())
	for _, fake := range []struct {
		name   string
		origin *origin
		want   Want
		keeps  bool
		step   int
	}{
		{"etag and digest", &origin{etag: `"v1"`, ranges: true}, digest, true, 4096},
		{"etag only", &origin{etag: `"v1"`, ranges: true}, Want{Size: UnknownSize}, true, 4096},
		{"digest only", &origin{ranges: true}, digest, true, 65536},
		{"weak etag, no digest", &origin{etag: `W/"v1"`, ranges: true}, Want{Size: UnknownSize}, false, 65536},
		{"no ranges", &origin{etag: `"v1"`}, digest, false, 65536},
	} {
		t.Run(fake.name, func(t *testing.T) {
			o := fake.origin
			o.data = data
			url := serve(t, o.ServeHTTP)
			for cut := 0; cut < size; cut += fake.step {
				root := newRoot(t)
				o.cut = cut
				_, err := c.Download(context.Background(), url, root, "f", fake.want)
				if got := kindOf(t, err); got != Network || !errors.Is(err, io.ErrUnexpectedEOF) && cut > 0 {
					t.Fatalf("cut at %d: kind %q (%v), want network and a cut", cut, got, err)
				}
				got, err := c.Download(context.Background(), url, root, "f", fake.want)
				if err != nil {
					t.Fatalf("cut at %d: %v", cut, err)
				}
				kept := int64(0)
				if fake.keeps {
					kept = int64(cut)
				}
				if got.SHA256 != sha(data) || got.Size != size || got.Resumed != kept {
					t.Fatalf("cut at %d: got %+v, want %d bytes kept", cut, got, kept)
				}
				wantFile(t, root, "f", data)
				wantNames(t, root, "f")
			}
		})
	}
}

// Bytes of a process that was killed: the record may be older than the bytes, torn, or of something else.
func TestResumeAfterAKill(t *testing.T) {
	data := payload(100_000)
	o := &origin{data: data, etag: `"v1"`, ranges: true, cut: -1}
	url := serve(t, o.ServeHTTP)
	c := newClient(t, local())
	good := Want{Algorithm: "sha256", Digest: sha(data), Size: UnknownSize}
	plain := Want{Size: UnknownSize}
	for _, fake := range []struct {
		name   string
		want   Want
		part   []byte
		record func(string) string
		kept   int64
	}{
		{"digest checks unsynced bytes", good, data[:70_000], func(s string) string { return s }, 70_000},
		{"without one only synced bytes count", plain, data[:70_000], func(s string) string { return s }, 50_000},
		{"torn record", good, data[:70_000], func(s string) string { return s[:len(s)-3] }, 0},
		{"empty record", plain, data[:70_000], func(string) string { return "" }, 0},
		{"negative", plain, data[:70_000],
			func(s string) string { return strings.Replace(s, `"synced":`, `"synced":-`, 1) }, 0},
		{"record of another URL",
			good, data[:70_000], func(s string) string { return strings.Replace(s, `"source":"`, `"source":"0`, 1) },
			0},
		{"garbage in the bytes", good, bytes.Repeat([]byte("x"), 70_000), func(s string) string { return s }, 0},
		{"garbage after the synced bytes", plain, append(data[:50_000:50_000], "garbage"...),
			func(s string) string { return s }, 50_000},
		{"longer than the file", good, append(data[:100_000:100_000], "more"...), func(s string) string { return s },
			0},
		{"complete but not renamed", good, data, func(s string) string { return s }, 100_000},
	} {
		t.Run(fake.name, func(t *testing.T) {
			root := newRoot(t)
			o.cut = 50_000
			_, err := c.Download(context.Background(), url, root, "f", fake.want)
			wantKind(t, err, Network)
			record, err := root.ReadFile("f.part.json")
			if err != nil {
				t.Fatal(err)
			}
			if err := root.WriteFile("f.part", fake.part, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := root.WriteFile("f.part.json", []byte(fake.record(string(record))), 0o600); err != nil {
				t.Fatal(err)
			}
			o.requests = nil
			got, err := c.Download(context.Background(), url, root, "f", fake.want)
			if err != nil || got.Resumed != fake.kept || got.SHA256 != sha(data) {
				t.Fatalf("got %+v, %v; want %d bytes kept", got, err, fake.kept)
			}
			wantFile(t, root, "f", data)
			if complete := fake.kept == int64(len(data)); complete != (len(o.requests) == 0) {
				t.Errorf("requests %q", o.requests)
			}
		})
	}
}

func TestCompleteByTotalWithoutDigest(t *testing.T) {
	data := payload(5000)
	o := &origin{data: data, etag: `"v1"`, ranges: true, cut: 4999}
	url := serve(t, o.ServeHTTP)
	c := newClient(t, local())
	root := newRoot(t)
	_, err := c.Download(context.Background(), url, root, "f", Want{Size: UnknownSize})
	wantKind(t, err, Network)
	record, _ := root.ReadFile("f.part.json")
	root.WriteFile("f.part", data, 0o600)
	root.WriteFile("f.part.json", bytes.Replace(record, []byte(`"synced":4999`), []byte(`"synced":5000`), 1), 0o600)
	o.requests = nil
	got, err := c.Download(context.Background(), url, root, "f", Want{Size: UnknownSize})
	if err != nil || got.Resumed != 5000 || len(o.requests) != 0 {
		t.Errorf("got %+v, %v, requests %q", got, err, o.requests)
	}
}

func TestChangedETagStartsAgain(t *testing.T) {
	one, two := payload(200_000), bytes.Repeat([]byte("two"), 60_000)
	for _, obeys := range []bool{true, false} {
		o := &origin{data: one, etag: `"v1"`, ranges: true, cut: 100_000}
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if !obeys {
				r.Header.Del("If-Range") // a server that continues with other bytes
			}
			o.ServeHTTP(w, r)
		})
		c := newClient(t, local())
		root := newRoot(t)
		_, err := c.Download(context.Background(), url, root, "f", Want{Size: UnknownSize})
		wantKind(t, err, Network)
		o.data, o.etag = two, `"v2"`
		got, err := c.Download(context.Background(), url, root, "f", Want{Size: UnknownSize})
		if err != nil || got.Resumed != 0 || got.ETag != `"v2"` {
			t.Fatalf("obeys %v: got %+v, %v", obeys, got, err)
		}
		wantFile(t, root, "f", two)
	}
}

// TestWrongPartialAnswersStartAgain checks that a download starts again after a wrong partial answer to its second
// request, which asks for the bytes from 1000 on.
func TestWrongPartialAnswersStartAgain(t *testing.T) {
	data := payload(5000)
	for name, lie := range map[string]func(w http.ResponseWriter){
		"from the first byte": func(w http.ResponseWriter) { w.Header().Set("Content-Range", "bytes 0-4999/5000") },
		"another offset":      func(w http.ResponseWriter) { w.Header().Set("Content-Range", "bytes 1001-4999/5000") },
		"no content range": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type",
				"multipart/byteranges; boundary=x")
		},
		"garbage":       func(w http.ResponseWriter) { w.Header().Set("Content-Range", "bytes 1000-999/5000") },
		"another total": func(w http.ResponseWriter) { w.Header().Set("Content-Range", "bytes 1000-5999/6000") },
		"only some":     func(w http.ResponseWriter) { w.Header().Set("Content-Range", "bytes 1000-1999/5000") },
	} {
		o := &origin{data: data, etag: `"v1"`, ranges: true, cut: 1000}
		lies := 0
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") == "" {
				o.ServeHTTP(w, r)
				return
			}
			lies++
			lie(w)
			w.WriteHeader(http.StatusPartialContent)
			w.Write(bytes.Repeat([]byte("x"), 4000))
		})
		c := newClient(t, local())
		root := newRoot(t)
		_, err := c.Download(context.Background(), url, root, "f", Want{Size: UnknownSize})
		wantKind(t, err, Network)
		_, err = c.Download(context.Background(), url, root, "f", Want{Size: UnknownSize})
		if err != nil || lies != 1 {
			t.Fatalf("%s: %v after %d lies", name, err, lies)
		}
		wantFile(t, root, "f", data)
	}
}

func TestRangeNotSatisfiableStartsAgain(t *testing.T) {
	data := payload(500)
	o := &origin{data: payload(5000), etag: `"v1"`, ranges: true, cut: 1000}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		o.ServeHTTP(w, r)
	})
	c := newClient(t, local())
	root := newRoot(t)
	_, err := c.Download(context.Background(), url, root, "f", Want{Size: UnknownSize})
	wantKind(t, err, Network)
	o.data = data
	_, err = c.Download(context.Background(), url, root, "f", Want{Size: UnknownSize})
	wantKind(t, err, "")
	wantFile(t, root, "f", data)
}
