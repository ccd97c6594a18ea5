package fetch

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/internal/durable"
)

func setOf(t *testing.T, root *os.Root) *durable.Set {
	t.Helper()
	set := durable.NewSet(root)
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	return set
}

func has(root *os.Root, name string) bool {
	_, err := root.Lstat(name)
	return err == nil
}

// TestSmallFiles: with a set, a file of up to 64 KiB has no .part file. The controls are larger ones, and those without
// a digest but with a size: a name is enough to accept these, so they get it at the end.
func TestSmallFiles(t *testing.T) {
	for _, size := range []int{0, 1, unrecorded, unrecorded + 1, 300_000} {
		for _, length := range []bool{true, false} {
			data := payload(size)
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if length {
					w.Header().Set("Content-Length", fmt.Sprint(size))
				}
				for part := range slices.Chunk(data, 20_000) {
					w.Write(part)
					http.NewResponseController(w).Flush()
				}
			})
			for _, one := range []struct {
				want  Want
				small bool
			}{
				{Want{Algorithm: "sha256", Digest: sha(data), Size: int64(size)}, size <= unrecorded},
				{Want{Size: UnknownSize}, size <= unrecorded},
				{Want{Size: int64(size)}, false},
			} {
				root, parts := newRoot(t), false
				one.want.Set = setOf(t, root)
				one.want.Progress = func(have, _ int64) {
					parts = parts || has(root, "f.part")
					if one.small && has(root, "f") {
						t.Errorf("%d bytes: it has its name after %d of them", size, have)
					}
				}
				got, err := newClient(t, local()).Download(context.Background(), url, root, "f", one.want)
				if err != nil || got.SHA256 != sha(data) || got.Size != int64(size) {
					t.Fatalf("%d bytes: got %+v, %v", size, got, err)
				}
				if parts == one.small && size > 0 {
					t.Errorf("%d bytes of %+v: a .part file: %t", size, one.want, parts)
				}
				wantFile(t, root, "f", data)
				wantNames(t, root, "f")
				if err := one.want.Set.Sync(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// TestSmallFileCut: the bytes that came before a failure are kept, and the next call goes on with them.
func TestSmallFileCut(t *testing.T) {
	o := &origin{data: payload(5000), etag: `"v1"`, ranges: true, cut: 1000}
	url, root := serve(t, o.ServeHTTP), newRoot(t)
	want := Want{Algorithm: "sha256", Digest: sha(o.data), Size: 5000, Set: setOf(t, root)}
	_, err := newClient(t, local()).Download(context.Background(), url, root, "f", want)
	wantKind(t, err, Network)
	wantFile(t, root, "f.part", o.data[:1000])
	got, err := newClient(t, local()).Download(context.Background(), url, root, "f", want)
	if err != nil || got.Resumed != 1000 || o.requests[1] != "bytes=1000-" {
		t.Errorf("got %+v, %v after %q", got, err, o.requests)
	}
	wantFile(t, root, "f", o.data)
	wantNames(t, root, "f")
}

// TestSmallFileWrong: wrong bytes get no name, and leave nothing.
func TestSmallFileWrong(t *testing.T) {
	url, root := serve(t, (&origin{data: payload(5000), cut: -1}).ServeHTTP), newRoot(t)
	_, err := newClient(t, local()).Download(context.Background(), url, root, "f",
		Want{Algorithm: "sha256", Digest: strings.Repeat("0", 64), Size: 5000, Set: setOf(t, root)})
	wantKind(t, err, BadDigest)
	wantNames(t, root)
}

// TestSmallFileReplaces: what has the name is replaced, and never written to: another name of it keeps its bytes. With
// New it is not read, even if it is the file. The control is a call without New.
func TestSmallFileReplaces(t *testing.T) {
	o := &origin{data: payload(5000), cut: -1}
	url := serve(t, o.ServeHTTP)
	for _, one := range []struct {
		there    []byte
		fresh    bool
		requests int
	}{
		{payload(4000), false, 1}, {payload(4000), true, 1}, {o.data, true, 1}, {o.data, false, 0},
	} {
		root := newRoot(t)
		if err := root.WriteFile("f", one.there, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := root.Link("f", "other"); err != nil {
			t.Fatal(err)
		}
		o.requests = nil
		got, err := newClient(t, local()).Download(context.Background(), url, root, "f",
			Want{Algorithm: "sha256", Digest: sha(o.data), Size: 5000, Set: setOf(t, root), New: one.fresh})
		if err != nil || len(o.requests) != one.requests || got.Reused != (one.requests == 0) {
			t.Errorf("new %t: got %+v, %v after %d requests", one.fresh, got, err, len(o.requests))
		}
		wantFile(t, root, "f", o.data)
		wantFile(t, root, "other", one.there)
		if has(root, "f.part") || has(root, "f.part.json") {
			t.Error("an unfinished file is left")
		}
	}
}

// TestSmallFileNoDirectory: a file that cannot be made is an error of storage.
func TestSmallFileNoDirectory(t *testing.T) {
	url, root := serve(t, (&origin{data: payload(50), cut: -1}).ServeHTTP), newRoot(t)
	_, err := newClient(t, local()).Download(context.Background(), url, root, "none/f",
		Want{Size: UnknownSize, Set: setOf(t, root)})
	wantKind(t, err, Storage)
	wantNames(t, root)
}

// TestNewWithRemains: remains of an earlier call do not become part of a file that counts as new.
func TestNewWithRemains(t *testing.T) {
	o := &origin{data: payload(200_000), etag: `"v1"`, ranges: true, cut: 100_000}
	url, root := serve(t, o.ServeHTTP), newRoot(t)
	want := Want{Algorithm: "sha256", Digest: sha(o.data), Size: 200_000, Set: setOf(t, root)}
	_, err := newClient(t, local()).Download(context.Background(), url, root, "f", want)
	wantKind(t, err, Network)
	want.New = true
	got, err := newClient(t, local()).Download(context.Background(), url, root, "f", want)
	if err != nil || got.Resumed != 0 || o.requests[1] != "" {
		t.Errorf("got %+v, %v after %q", got, err, o.requests)
	}
	wantFile(t, root, "f", o.data)
	wantNames(t, root, "f")
}
