package ingest

import (
	"archive/tar"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/app/ingest/workdir"
)

// refusedNames are file names that no manifest, archive or form may bring in.
var refusedNames = []string{
	"../x", "a/../../x", "/etc/passwd", "..", ".", "a/..", `..\x`, `a\b`, "C:x", "c:/x", "a//b", "CON", "nul.txt",
	"com1", "a\u202egpj.exe",
	"a\x01b", "...", " ", "\uff0e\uff0e/x", "a/\u2025/x", strings.Repeat("n", 256), strings.Repeat("d/", 2100) + "x",
}

// clearly fails the test unless the only job failed with a cause word, a message and no panic, and nothing is stored.
func (w *harness) clearly(r report.Batch, want ...string) {
	w.t.Helper()
	if r.State != record.Failed || len(r.Jobs) != 1 {
		w.t.Fatalf("got %s", r.Text())
	}
	j := r.Jobs[0]
	ok := len(want) == 0
	for _, c := range want {
		ok = ok || j.Cause == c
	}
	if !ok || j.Cause == "" || j.Cause == "panic" || j.Cause == "error" || j.Message == "" {
		w.t.Errorf("got cause %q (%s), want one of %v", j.Cause, j.Message, want)
	}
	w.nothingStored()
}

func TestHostileNamesInManifests(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha"})
	w := start(t)
	for _, name := range refusedNames {
		r := w.ingest(Submission{Type: TypeObjectManifest},
			manifest("mrt-ingest-manifest", s.URL+"/a.txt |  |  |  |  | "+name))
		if name == " " { // an empty field: the name is that of the URL
			if r.State != record.Completed {
				t.Errorf("control: got %s", r.Text())
			}
			continue
		}
		if r.State != record.Failed || len(r.Jobs) != 1 ||
			(r.Jobs[0].Cause != CauseUnsafeName && r.Jobs[0].Cause != CauseCorruptManifest) {
			t.Errorf("%q: got %s", name, r.Text())
		}
	}
	objects, _, _, err := w.inventory.Counts(t.Context())
	if err != nil || objects != 1 {
		t.Errorf("got %d objects, %v", objects, err)
	}
	w.valid()
}

func TestHostileNamesInZips(t *testing.T) {
	w := start(t)
	for _, name := range refusedNames {
		r := w.ingest(Submission{Filename: "x.zip"}, zipOf(t, name, "x"))
		if r.State != record.Failed || len(r.Jobs) != 1 || r.Jobs[0].Cause == "" || r.Jobs[0].Cause == "error" {
			t.Errorf("%q: got %s", name, r.Text())
		}
	}
	w.nothingStored()
}

func TestNamesThatCollide(t *testing.T) {
	s := newSite(t, map[string]string{"a": "1", "b": "2"})
	for what, names := range map[string][2]string{
		"same": {"x.txt", "x.txt"}, "case": {"x.txt", "X.TXT"}, "form": {"caf\u00e9",
			"cafe\u0301"}, "file and folder": {"x", "x/y"}, "dots": {"x", "x."},
	} {
		w := start(t)
		w.clearly(w.ingest(Submission{Type: TypeObjectManifest}, manifest("mrt-ingest-manifest",
			s.URL+"/a |  |  |  |  | "+names[0], s.URL+"/b |  |  |  |  | "+names[1])), CauseDuplicateName)
		w.clearly(w.ingest(Submission{Filename: "x.zip"}, zipOf(t, names[0], "1", names[1], "2")), CauseDuplicateName,
			CauseCorruptArchive)
		if t.Failed() {
			t.Fatal(what)
		}
	}
}

func TestHostileArchives(t *testing.T) {
	bomb := gzipOf(t, strings.Repeat("\x00", 8<<20))
	for name, c := range map[string]struct{ file, text, want string }{
		"symbolic link": {"x.tar", tarOf(t, []tar.Header{{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/etc"},
			{Name: "a/b"}}, "x"), CauseUnsafeArchive},
		"hard link": {"x.tar", tarOf(t, []tar.Header{{Name: "a", Typeflag: tar.TypeLink, Linkname: "../../lock"}},
			""), CauseUnsafeArchive},
		"device":       {"x.tar", tarOf(t, []tar.Header{{Name: "a", Typeflag: tar.TypeChar}}, ""), CauseUnsafeArchive},
		"set-id":       {"x.tar", tarOf(t, []tar.Header{{Name: "a", Mode: 0o4755}}, "x"), CauseUnsafeArchive},
		"bomb":         {"x.gz", bomb, CauseUnsafeArchive},
		"not a zip":    {"x.zip", "hello", CauseCorruptArchive},
		"not a tar.gz": {"x.tgz", gzipOf(t, "hello"), CauseCorruptArchive},
		"seven files": {"x.zip", zipOf(t, "1", "", "2", "", "3", "", "4", "", "5", "", "6", "", "7", ""),
			CauseTooLarge},
		"many bytes": {"x.zip", zipOf(t, "1", strings.Repeat("0123456789", 50_000)), CauseTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := testProfile()
			p.Limits = profile.Limits{Files: 6, Bytes: 400_000}
			if name == "bomb" {
				p.Limits.Bytes = 1 << 30
			}
			w := start(t, p)
			w.clearly(w.ingest(Submission{Filename: c.file}, c.text), c.want)
		})
	}
}

func TestAddressesThatAreRefused(t *testing.T) {
	strictly := testProfile()
	strictly.Networks = nil
	w := start(t, strictly)
	s := newSite(t, map[string]string{"a.txt": "alpha"})
	port := s.URL[strings.LastIndex(s.URL, ":")+1:]
	urls := []string{
		s.URL + "/a.txt", "http://localhost:" + port + "/a.txt", "http://127.1:" + port +
			"/a.txt", "http://2130706433:" + port + "/a.txt",
		"http://0x7f000001/a", "http://[::1]:" + port + "/a", "http://[::ffff:127.0.0.1]:" + port +
			"/a", "http://169.254.169.254/latest/meta-data",
		"http://10.0.0.1/a", "http://192.168.1.1/a", "http://172.16.0.1/a", "http://100.64.0.1/a", "http://0.0.0.0:" +
			port + "/a",
		"http://[fd00::1]/a", "http://[64:ff9b::7f00:1]/a", "file:///etc/passwd", "ftp://127.0.0.1/a",
		"gopher://127.0.0.1/a",
		"http://127.0.0.1:22/a", "http://user:pw@127.0.0.1:" + port + "/a",
	}
	for _, u := range urls {
		for _, c := range []struct{ typ, text string }{
			{TypeObjectManifest, manifest("mrt-ingest-manifest", u+" |  |  |  |  | a.txt")},
			{TypeFileBatchManifest, manifest("mrt-single-file-batch-manifest", u+" |  |  |  |  | a.txt")},
			{TypeBatchManifest, manifest("mrt-batch-manifest", u+" |  |  |  |  | a.checkm")},
		} {
			r := w.ingest(Submission{Type: c.typ}, c.text)
			if r.State == record.Failed && len(r.Jobs) == 0 && strings.HasPrefix(u, "gopher:") {
				continue // refused with the batch: no manifest may name it
			}
			if r.State != record.Failed || len(r.Jobs) != 1 ||
				(r.Jobs[0].Cause != CauseRefused && r.Jobs[0].Cause != CauseCorruptManifest) {
				t.Errorf("%s in %s: got %s", u, c.typ, r.Text())
			}
		}
	}
	w.nothingStored()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.gets) > 0 {
		t.Errorf("the server was reached: %v", s.gets)
	}
}

func TestRedirectsToRefusedAddresses(t *testing.T) {
	s := newSite(t, nil)
	for i, to := range []string{"http://169.254.169.254/", "file:///etc/passwd", "http://10.0.0.1/x"} {
		name := fmt.Sprintf("r%d", i)
		s.answer(name, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) })
		w := start(t)
		w.clearly(w.ingest(Submission{}, manifest("mrt-ingest-manifest", s.URL+"/"+name+" |  |  |  |  | a.txt")),
			CauseRefused)
	}
}

func TestServersThatLie(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha"})
	s.answer("endless", func(w http.ResponseWriter, r *http.Request) {
		for range 1 << 20 {
			if _, err := w.Write(make([]byte, 1024)); err != nil {
				return
			}
		}
	})
	s.answer("denied", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	s.answer("broken", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusBadGateway) })
	p := testProfile()
	p.Limits.Bytes = 1 << 20
	for row, want := range map[string]string{
		"a.txt | md5 | " + md5Hex("other"):            CauseBadDigest,
		"a.txt |  |  | 6":                             CauseBadSize,
		"endless |  |  |":                             CauseTooLarge,
		"denied |  |  |":                              CauseHTTPStatus,
		"broken |  |  |":                              CauseServer,
		"none |  |  |":                                CauseNotFound,
		"a.txt | sha256 | " + strings.Repeat("0", 64): CauseBadDigest,
		"a.txt | md5 | " + strings.Repeat("0", 32) + " | 5 |  | x": CauseBadDigest,
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			w := start(t, p)
			w.clearly(w.ingest(Submission{Type: TypeObjectManifest}, manifest("mrt-ingest-manifest", s.URL+"/"+row)),
				want)
		})
	}
}

func TestObjectsOverTheLimits(t *testing.T) {
	s := newSite(t, map[string]string{"a": "12345", "b": "67890", "c": "abcde"})
	p := testProfile()
	p.Limits = profile.Limits{Files: 2, Bytes: 12}
	w := start(t, p)
	w.clearly(w.ingest(Submission{}, s.manifest("a", "b", "c")), CauseTooLarge)
	if r := w.ingest(Submission{}, s.manifest("a", "b")); r.State != record.Completed {
		t.Errorf("control: got %s", r.Text())
	}
}

func TestPayloadThatIsGone(t *testing.T) {
	w := start(t)
	b := w.submit(Submission{}, "text")
	w.end(b.ID)
	name := filepath.Join(w.dir, workdir.WorkName, string(b.ID), workdir.PayloadName)
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("the payload of a completed batch stays: %v", err)
	}
	spec := &record.BatchSpec{Payload: record.Payload{Size: 4}}
	if _, err := w.openPayload(b.ID, spec); causeOf(err) != CausePayloadMissing {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(name, []byte("tex"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.openPayload(b.ID, spec); causeOf(err) != CausePayloadMissing {
		t.Errorf("truncated: got %v", err)
	}
}
