package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"strings"
	"syscall"
	"testing"
)

func TestDownloadVerifiesEveryAlgorithm(t *testing.T) {
	data := payload(300_000)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"one"`)
		w.Header().Set("Content-Type", "text/x-test")
		w.Write(data)
	})
	sum1, sum384, sum512, sum5 := sha1.Sum(data), sha512.Sum384(data), sha512.Sum512(data), md5.Sum(data)
	digests := map[string]string{
		"md5":   hex.EncodeToString(sum5[:]),
		"SHA-1": hex.EncodeToString(sum1[:]), "sha256": strings.ToUpper(sha(data)),
		"SHA384":  hex.EncodeToString(sum384[:]),
		"sha-512": hex.EncodeToString(sum512[:]), "CRC-32": fmt.Sprintf("%x", crc32.ChecksumIEEE(data)),
		"adler32": fmt.Sprintf("%x", adler32.Checksum(data)),
	}
	c := newClient(t, local())
	for algorithm, digest := range digests {
		root := newRoot(t)
		got, err := c.Download(context.Background(), url, root, "f",
			Want{Algorithm: algorithm, Digest: digest, Size: int64(len(data))})
		if err != nil {
			t.Fatal(err)
		}
		want := Got{Size: int64(len(data)), SHA256: sha(data), SHA512: hex.EncodeToString(sum512[:]), ETag: `"one"`,
			ContentType: "text/x-test"}
		if want.Digest = strings.ToLower(digest); len(want.Digest) < 8 {
			want.Digest = strings.Repeat("0", 8-len(want.Digest)) + want.Digest
		}
		if got != want {
			t.Errorf("%s: got %+v, want %+v", algorithm, got, want)
		}
		wantFile(t, root, "f", data)
		wantNames(t, root, "f")
		// The control: one digit changed.
		wrong := "0" + digest[1:]
		if wrong == digest {
			wrong = "1" + digest[1:]
		}
		root = newRoot(t)
		_, err = c.Download(context.Background(), url, root, "f",
			Want{Algorithm: algorithm, Digest: wrong, Size: UnknownSize})
		wantKind(t, err, BadDigest)
		wantNames(t, root)
	}
}

func TestInvalidWants(t *testing.T) {
	c := newClient(t, local())
	for _, want := range []Want{
		{Algorithm: "md4", Digest: "00", Size: -1}, {Algorithm: "", Digest: "00", Size: -1},
		{Algorithm: "md5", Digest: "", Size: -1},
		{Algorithm: "md5", Digest: strings.Repeat("g", 32), Size: -1},
		{Algorithm: "sha256", Digest: strings.Repeat("0", 63), Size: -1},
		{Algorithm: "crc32", Digest: "", Size: -1}, {Size: -2}, {Size: -1, Scratch: "../x"},
	} {
		_, err := c.Download(context.Background(), "http://127.0.0.1:9999/", newRoot(t), "f", want)
		if got := kindOf(t, err); got != Invalid {
			t.Errorf("%+v: kind %q, want invalid", want, got)
		}
	}
	for _, name := range []string{"", "../f", "/f", "a/../../f", "f.part", "d/f.part.json"} {
		_, err := c.Download(context.Background(), "http://127.0.0.1:9999/", newRoot(t), name, Want{Size: -1})
		if got := kindOf(t, err); got != Invalid {
			t.Errorf("name %q: kind %q, want invalid", name, got)
		}
	}
}

func TestExistingFile(t *testing.T) {
	data := payload(5000)
	o := &origin{data: data, cut: -1}
	url := serve(t, o.ServeHTTP)
	c := newClient(t, local())
	good := Want{Algorithm: "sha256", Digest: sha(data), Size: 5000}
	for _, fake := range []struct {
		name   string
		have   []byte
		want   Want
		reused bool
	}{
		{"digest matches", data, good, true},
		{"size matches, no digest wanted", data, Want{Size: 5000}, true},
		{"other bytes", payload(5001)[1:], good, false},
		{"shorter", data[:10], good, false},
		{"nothing to compare with", data, Want{Size: UnknownSize}, false},
	} {
		root := newRoot(t)
		root.WriteFile("f", fake.have, 0o600)
		o.requests = nil
		got, err := c.Download(context.Background(), url, root, "f", fake.want)
		if err != nil || got.Reused != fake.reused || got.SHA256 != sha(data) || (len(o.requests) == 0) != fake.reused {
			t.Errorf("%s: got %+v, %v, %d requests", fake.name, got, err, len(o.requests))
		}
		wantFile(t, root, "f", data)
	}
	root := newRoot(t)
	root.WriteFile("f", []byte("old"), 0o600)
	o.cut = 10
	_, err := c.Download(context.Background(), url, root, "f", good)
	wantKind(t, err, Network)
	wantFile(t, root, "f", []byte("old"))
}

func TestPlantedLinksAreNotWrittenThrough(t *testing.T) {
	data := payload(100)
	url := serve(t, (&origin{data: data, cut: -1}).ServeHTTP)
	c := newClient(t, local())
	root := newRoot(t)
	root.WriteFile("victim", []byte("victim"), 0o600)
	root.Symlink("victim", "f.part")
	_, err := c.Download(context.Background(), url, root, "f", Want{Size: 100})
	wantKind(t, err, Storage)
	root.Remove("f.part")
	root.Symlink("victim", "f")
	_, err = c.Download(context.Background(), url, root, "f", Want{Size: 100})
	wantKind(t, err, Storage)
	wantFile(t, root, "victim", []byte("victim"))
	root.Remove("f")
	_, err = c.Download(context.Background(), url, root, "f", Want{Size: 100})
	wantKind(t, err, "")
}

func TestScratchDirectory(t *testing.T) {
	data := payload(5000)
	o := &origin{data: data, etag: `"v1"`, ranges: true, cut: 1000}
	url := serve(t, o.ServeHTTP)
	c := newClient(t, local())
	root := newRoot(t)
	want := Want{Size: 5000, Scratch: "unfinished"}
	_, err := c.Download(context.Background(), url, root, "f.part", want)
	wantKind(t, err, Network)
	wantNames(t, root, "unfinished")
	got, err := c.Download(context.Background(), url, root, "f.part", want)
	if err != nil || got.Resumed != 1000 {
		t.Fatalf("got %+v, %v", got, err)
	}
	wantFile(t, root, "f.part", data)
	_, err = c.Download(context.Background(), url, root, "unfinished/x", want)
	wantKind(t, err, Invalid)
}

func TestLongNames(t *testing.T) {
	data := payload(50)
	url := serve(t, (&origin{data: data, cut: -1}).ServeHTTP)
	c := newClient(t, local())
	root := newRoot(t)
	name := strings.Repeat("n", 255)
	_, err := c.Download(context.Background(), url, root, name, Want{Size: 50})
	wantKind(t, err, "")
	wantFile(t, root, name, data)
	_, err = c.Download(context.Background(), url, root, name+"n", Want{Size: 50})
	wantKind(t, err, Storage)
	if _, err := root.Stat(path.Join("missing", "f")); err == nil {
		t.Error("missing/f exists")
	}
}

func TestSizesAndLies(t *testing.T) {
	data := payload(10_000)
	hijack := func(w http.ResponseWriter, text string) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			io.WriteString(conn, text)
			conn.Close()
		}
	}
	endless := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(data); err != nil {
				return
			}
		}
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	z.Write(make([]byte, 10<<20))
	z.Close()
	policy := local()
	policy.MaxBytes = 1 << 20
	c := newClient(t, policy)
	for _, fake := range []struct {
		name  string
		serve http.HandlerFunc
		want  Want
		kind  Kind
		size  int64
	}{
		{"control", func(w http.ResponseWriter, r *http.Request) { w.Write(data) }, Want{Size: 10_000}, "", 10_000},
		{"empty file", func(w http.ResponseWriter, r *http.Request) {}, Want{Size: 0}, "", 0},
		{"empty file wanted, bytes come", func(w http.ResponseWriter, r *http.Request) { w.Write(data) }, Want{Size: 0},
			BadSize, 0},
		{"endless body", endless, Want{Size: -1}, TooLarge, 0},
		{"endless body, own limit", endless, Want{Size: -1, MaxBytes: 5000}, TooLarge, 0},
		{"endless body, size wanted", endless, Want{Size: 10_001}, BadSize, 0},
		{"exactly the limit", func(w http.ResponseWriter, r *http.Request) { w.Write(data) },
			Want{Size: -1, MaxBytes: 10_000}, "", 10_000},
		{"one above the limit", func(w http.ResponseWriter, r *http.Request) { w.Write(data) },
			Want{Size: -1, MaxBytes: 9_999}, TooLarge, 0},
		{"announces too much", func(w http.ResponseWriter,
			r *http.Request) {
			w.Header().Set("Content-Length", "999999999999")
		}, Want{Size: -1}, TooLarge, 0},
		{"announces another size", func(w http.ResponseWriter, r *http.Request) { w.Write(data) }, Want{Size: 9_999},
			BadSize, 0},
		{"wanted more than allowed", func(w http.ResponseWriter, r *http.Request) { w.Write(data) },
			Want{Size: 2 << 20}, TooLarge, 0},
		{"chunked and short", func(w http.ResponseWriter, r *http.Request) {
			w.Write(data[:5000])
			http.NewResponseController(w).Flush()
			w.Write(data[5000:9000])
		}, Want{Size: 10_000}, BadSize, 0},
		{"length larger than the body", func(w http.ResponseWriter, r *http.Request) {
			hijack(w, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
		}, Want{Size: -1}, Network, 0},
		{"length smaller than the body", func(w http.ResponseWriter, r *http.Request) {
			hijack(w, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nshort and more")
		}, Want{Size: -1}, "", 5},
		{"no framing, cut", func(w http.ResponseWriter, r *http.Request) {
			hijack(w, "HTTP/1.0 200 OK\r\n\r\nshort")
		}, Want{Size: 100}, Network, 0},
		{"chunk cut", func(w http.ResponseWriter, r *http.Request) {
			hijack(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nshort")
		}, Want{Size: -1}, Network, 0},
		{"two lengths", func(w http.ResponseWriter, r *http.Request) {
			hijack(w, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nshort.")
		}, Want{Size: -1}, Network, 0},
		{"negative length", func(w http.ResponseWriter, r *http.Request) {
			hijack(w, "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nshort")
		}, Want{Size: -1}, Network, 0},
		{"no HTTP at all", func(w http.ResponseWriter, r *http.Request) { hijack(w, "SSH-2.0-x\r\n") }, Want{Size: -1},
			Network, 0},
		{"endless header", func(w http.ResponseWriter, r *http.Request) {
			hijack(w, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 2*headerBytes)+"\r\n\r\n")
		}, Want{Size: -1}, Network, 0},
		{"gzip bomb as a coding is not unpacked", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(bomb.Bytes())
		}, Want{Size: int64(bomb.Len())}, "", int64(bomb.Len())},
		{"partial answer to a plain request", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes 0-4/10000")
			w.WriteHeader(http.StatusPartialContent)
			w.Write(data[:5])
		}, Want{Size: -1}, Status, 0},
		{"204", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }, Want{Size: -1}, Status, 0},
		{"404", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(404) }, Want{Size: -1}, NotFound, 0},
		{"410", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(410) }, Want{Size: -1}, NotFound, 0},
		{"401", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401) }, Want{Size: -1}, Status, 0},
		{"408", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(408) }, Want{Size: -1}, Server, 0},
		{"425", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(425) }, Want{Size: -1}, Server, 0},
		{"429", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(429) }, Want{Size: -1}, Server, 0},
		{"503", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) }, Want{Size: -1}, Server, 0},
	} {
		t.Run(fake.name, func(t *testing.T) {
			root := newRoot(t)
			got, err := c.Download(context.Background(), serve(t, fake.serve), root, "f", fake.want)
			wantKind(t, err, fake.kind)
			if err == nil && got.Size != fake.size {
				t.Errorf("size %d, want %d", got.Size, fake.size)
			}
			if err != nil && fake.kind != Network {
				wantNames(t, root)
			}
		})
	}
}

// A sync that fails leaves no final name: what is not on the disk must not be called complete.
func TestSync(t *testing.T) {
	data := payload(5000)
	url := serve(t, (&origin{data: data, cut: -1}).ServeHTTP)
	root := newRoot(t)
	c := newClient(t, local())
	c.sync = func(*os.File) error { return syscall.EIO }
	_, err := c.Download(context.Background(), url, root, "f", Want{Size: 5000})
	wantKind(t, err, Storage)
	if _, err := root.Stat("f"); err == nil {
		t.Error("f exists")
	}
	var names []string
	c.sync = func(f *os.File) error {
		names = append(names, path.Base(f.Name()))
		return f.Sync()
	}
	_, err = c.Download(context.Background(), url, root, "f", Want{Size: 5000})
	if err != nil || len(names) != 2 || names[0] != "f.part" {
		t.Errorf("%v, synced %q, want the bytes and the directory", err, names)
	}
	wantFile(t, root, "f", data)
}

func TestProgress(t *testing.T) {
	data := payload(400_000)
	url := serve(t, (&origin{data: data, cut: -1}).ServeHTTP)
	var last, size int64
	calls := 0
	_, err := newClient(t, local()).Download(context.Background(), url, newRoot(t), "f",
		Want{Size: -1, Progress: func(have, of int64) {
			if have <= last {
				t.Errorf("progress went from %d to %d", last, have)
			}
			last, size, calls = have, of, calls+1
		}})
	if err != nil || last != 400_000 || size != 400_000 || calls < 4 {
		t.Errorf("%v, progress %d of %d in %d calls", err, last, size, calls)
	}
}

func TestCancelKeepsBytes(t *testing.T) {
	data := payload(400_000)
	o := &origin{data: data, etag: `"v1"`, ranges: true, cut: -1}
	stall := true
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !stall {
			o.ServeHTTP(w, r)
			return
		}
		w.Header().Set("ETag", o.etag)
		w.Header().Set("Content-Length", "400000")
		w.Write(data[:1000])
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	c := newClient(t, local())
	root := newRoot(t)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := c.Download(ctx, url, root, "f", Want{Size: -1, Progress: func(int64, int64) { cancel() }})
	wantKind(t, err, Network)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	stall = false
	got, err := c.Download(context.Background(), url, root, "f", Want{Size: -1})
	if err != nil || got.Resumed != 1000 {
		t.Errorf("got %+v, %v; want 1000 bytes kept", got, err)
	}
	wantFile(t, root, "f", data)
}

func TestTemporary(t *testing.T) {
	for _, c := range []struct {
		err  *Error
		want bool
	}{
		{&Error{Kind: Server}, true},
		{&Error{Kind: Network, Err: ErrSlow}, true},
		{&Error{Kind: Network, Err: &net.DNSError{IsNotFound: true}}, true},
		{&Error{Kind: Storage, Err: &os.PathError{Err: syscall.ENOSPC}}, true},
		{&Error{Kind: Storage, Err: syscall.EIO}, false},
		{&Error{Kind: Refused}, false}, {&Error{Kind: BadDigest}, false}, {&Error{Kind: TooLarge}, false},
		{&Error{Kind: NotFound}, false},
	} {
		if got := c.err.Temporary(); got != c.want {
			t.Errorf("%v: temporary %v, want %v", c.err, got, c.want)
		}
	}
}
