package ingest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/job"
)

// zipOf packs names and contents, given in turn.
func zipOf(t *testing.T, pairs ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		f, err := w.Create(pairs[i])
		if err == nil {
			_, err = f.Write([]byte(pairs[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func tarOf(t *testing.T, headers []tar.Header, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == 0 || h.Typeflag == tar.TypeReg {
			h.Size = int64(len(text))
		}
		err := w.WriteHeader(&h)
		if err == nil && h.Size > 0 {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func gzipOf(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// produced are the depositor's files of a version.
func (w *harness) produced(ark, version string) map[string]string {
	got := map[string]string{}
	for name, text := range w.files(ark, version) {
		if rest, ok := strings.CutPrefix(name, workdir.ProducerName+"/"); ok {
			got[rest] = text
		}
	}
	return got
}

func TestEveryKindOfSubmission(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha", "b.txt": "beta"})
	plainTar := tarOf(t, []tar.Header{{Name: "x/", Typeflag: tar.TypeDir, Mode: 0o755}, {Name: "x/y.txt", Mode: 0o644}},
		"why")
	s.put("o.checkm", s.manifest("a.txt", "b.txt"))
	s.put("c.zip", zipOf(t, "in/z.txt", "zed"))
	for name, c := range map[string]struct {
		s    Submission
		text string
		typ  string
		want map[string]string
	}{
		"file": {Submission{Filename: "letter.txt"}, "dear", TypeFile,
			map[string]string{"letter.txt": "dear"}},
		"file without a name": {Submission{}, "dear", TypeFile, map[string]string{"payload": "dear"}},
		"file that is named so": {Submission{Filename: "x.zip", Type: TypeFile}, "no zip", TypeFile,
			map[string]string{"x.zip": "no zip"}},
		"zip": {Submission{Filename: "x.zip"}, zipOf(t, "a", "1", "d/b", "2"), TypeContainer,
			map[string]string{"a": "1", "d/b": "2"}},
		"tar": {Submission{Filename: "x.tar"}, plainTar, TypeContainer,
			map[string]string{"x/y.txt": "why"}},
		"tar.gz": {Submission{Filename: "x.tar.gz"}, gzipOf(t, plainTar), TypeContainer,
			map[string]string{"x/y.txt": "why"}},
		"tgz": {Submission{Filename: "x.tgz"}, gzipOf(t, plainTar), TypeContainer,
			map[string]string{"x/y.txt": "why"}},
		"gz": {Submission{Filename: "x.txt.gz"}, gzipOf(t, "zipped"), TypeContainer,
			map[string]string{"x.txt": "zipped"}},
		"object manifest": {Submission{Filename: "o.checkm"}, s.manifest("a.txt", "b.txt"), TypeObjectManifest,
			map[string]string{"a.txt": "alpha", "b.txt": "beta"}},
		"batch of manifests": {Submission{Filename: "b.checkm"},
			manifest("mrt-batch-manifest", s.row("o.checkm", "", "")), TypeBatchManifest,
			map[string]string{"a.txt": "alpha", "b.txt": "beta"}},
		"batch of containers": {Submission{Filename: "b.checkm"},
			manifest("mrt-container-batch-manifest", s.row("c.zip", "", "")),
			TypeContainerBatchManifest, map[string]string{"in/z.txt": "zed"}},
		"batch of files": {Submission{Filename: "b.checkm"},
			manifest("mrt-single-file-batch-manifest", s.row("b.txt", "", "")),
			TypeFileBatchManifest, map[string]string{"b.txt": "beta"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t)
			r := w.ingest(c.s, c.text)
			if r.State != record.Completed || len(r.Jobs) != 1 || r.Type != c.typ {
				t.Fatalf("type %s, %s", r.Type, r.Text())
			}
			if diff := cmp.Diff(c.want, w.produced(r.Jobs[0].ARK, "v1")); diff != "" {
				t.Error(diff)
			}
			w.valid()
		})
	}
}

func TestBatchesThatMakeNoJobs(t *testing.T) {
	s := newSite(t, nil)
	good := manifest("mrt-batch-manifest", s.row("o.checkm", "", ""))
	small := testProfile()
	small.Limits.Manifest = 20
	for name, c := range map[string]struct {
		s    Submission
		text string
		want string
	}{
		"no rows":      {Submission{}, manifest("mrt-batch-manifest"), CauseEmptyManifest},
		"no end":       {Submission{}, strings.TrimSuffix(good, "#%eof\n"), CauseCorruptManifest},
		"wrong kind":   {Submission{Type: TypeFileBatchManifest}, good, CauseCorruptManifest},
		"no manifest":  {Submission{Type: TypeBatchManifest}, "hello", CauseCorruptManifest},
		"wrong digest": {Submission{DigestType: "md5", DigestValue: md5Hex("other")}, good, CausePayloadDigest},
		"too large":    {Submission{Profile: "small"}, good, CauseTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			small := small
			small.ID = "small"
			w := start(t, testProfile(), small)
			b := w.end(w.submit(c.s, c.text).ID)
			if b.State != record.Failed || b.Cause != c.want || b.Children.Expected != 0 {
				t.Errorf("got %s: %s (%s), %d jobs; want %s", b.State, b.Cause, b.Message, b.Children.Expected, c.want)
			}
			w.nothingStored()
			message := b.Message
			if err := w.do(b.ID, record.Update); err != nil { // an update finds nothing to do, and reports again
				t.Fatal(err)
			}
			if b = w.end(b.ID); b.State != record.Failed || b.Cause != c.want || b.Message != message {
				t.Errorf("after an update: got %s: %s (%s)", b.State, b.Cause, b.Message)
			}
			if r := w.reported(b.ID); r.Status != "Failed" || r.Message != message {
				t.Errorf("got %s", r.Text())
			}
		})
	}
}

func TestSubmitRefuses(t *testing.T) {
	w := start(t)
	bad := 100
	for name, s := range map[string]Submission{
		"profile":      {Profile: "films"},
		"type":         {Type: "folder"},
		"name":         {Filename: "../../etc/passwd"},
		"ark":          {PrimaryID: "doi:10.1/2"},
		"digest type":  {DigestType: "md6", DigestValue: "00"},
		"digest value": {DigestType: "md5", DigestValue: "00"},
		"priority":     {Priority: &bad},
		"notification": {Notification: "nobody"},
		"title":        {Title: "a\nBcc: all@example.org"},
		"note":         {Note: strings.Repeat("x", 5000)},
	} {
		if s.Profile == "" {
			s.Profile = "test"
		}
		_, err := w.Submit(t.Context(), s, strings.NewReader("x"))
		if job.KindOf(err) != job.Invalid {
			t.Errorf("%s: got %v", name, err)
		}
	}
	page, err := w.store.List(t.Context(), job.Query{})
	if err != nil || len(page.Jobs) > 0 {
		t.Errorf("got %d jobs, %v", len(page.Jobs), err)
	}
	if left := w.workDirs(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSubmitWithKey(t *testing.T) {
	w := start(t)
	first := w.submit(Submission{Key: "k", Title: "T"}, "text")
	again := w.submit(Submission{Key: "k", Title: "T"}, "text")
	if first.ID != again.ID {
		t.Errorf("got %s and %s", first.ID, again.ID)
	}
	for name, c := range map[string]struct {
		title, text string
	}{"another payload": {"T", "other"}, "another title": {"U", "text"}} {
		_, err := w.Submit(t.Context(), Submission{Profile: "test", Submitter: "ann", Key: "k", Title: c.title},
			strings.NewReader(c.text))
		if job.KindOf(err) != job.Conflict {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if other, err := w.Submit(t.Context(), Submission{Profile: "test", Submitter: "bob", Key: "k"},
		strings.NewReader("x")); err != nil || other.ID == first.ID {
		t.Errorf("the key of another submitter is another key: %v", err)
	}
	if left := w.workDirs(); len(left) != 2 {
		t.Errorf("payloads of two batches are kept, got %v", left)
	}
}

func TestContainerManifest(t *testing.T) {
	own := func(rows ...string) string {
		return "#%checkm_0.7\n#%profile | http://uc3.cdlib.org/registry/store/manifest/mrt-object-manifest\n" +
			strings.Join(rows, "\n") + "\n#%eof\n"
	}
	for name, c := range map[string]struct{ text, want string }{
		"right":          {zipOf(t, "a", "1", "mrt-manifest.txt", own("a | md5 | "+md5Hex("1")+" | 1")), ""},
		"with a folder":  {zipOf(t, "a", "1", "mrt-object-manifest.txt", own("producer/a |  |  | 1")), ""},
		"wrong digest":   {zipOf(t, "a", "2", "mrt-manifest.txt", own("a | md5 | "+md5Hex("1")+" | 1")), CauseMismatch},
		"wrong size":     {zipOf(t, "a", "1", "mrt-manifest.txt", own("a |  |  | 2")), CauseMismatch},
		"missing":        {zipOf(t, "a", "1", "mrt-manifest.txt", own("a", "b")), CauseMismatch},
		"unnamed":        {zipOf(t, "a", "1", "b", "2", "mrt-manifest.txt", own("a")), CauseMismatch},
		"corrupt":        {zipOf(t, "a", "1", "mrt-manifest.txt", "hello"), CauseCorruptManifest},
		"leads outside":  {zipOf(t, "a", "1", "mrt-manifest.txt", own("../../a")), CauseCorruptManifest},
		"empty":          {zipOf(t), CauseEmptyManifest},
		"truncated":      {zipOf(t, "a", "1")[:30], CauseCorruptArchive},
		"package digest": {zipOf(t, "a", "1"), CausePayloadDigest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t)
			s := Submission{Filename: "c.zip"}
			if c.want == CausePayloadDigest {
				s.DigestType, s.DigestValue = "sha256", sha256Hex("other")
			}
			r := w.ingest(s, c.text)
			if len(r.Jobs) != 1 || r.Jobs[0].Cause != c.want {
				t.Fatalf("got %s; want %q", r.Text(), c.want)
			}
			if c.want != "" {
				w.nothingStored()
			}
		})
	}
}

func TestMetadataFiles(t *testing.T) {
	w := start(t)
	dc := `<dc xmlns="http://purl.org/dc/elements/1.1/"><title>DC title</title><creator>DC creator</creator><date>1999</date></dc>`
	j := w.one(Submission{Filename: "c.zip", Title: "Given"},
		zipOf(t, "mrt-erc.txt", "erc:\nwho: ERC person\nwhat: ERC title\nwhen: (:unkn)\n", "mrt-dc.xml", dc))
	o := w.object(j.ARK)
	if o.Title != "ERC title" || o.Creator != "ERC person" || o.Date != "1999" {
		t.Errorf("got %q, %q, %q", o.Title, o.Creator, o.Date)
	}
	erc := w.files(j.ARK, "v1")["system/mrt-erc.txt"]
	for _, want := range []string{"who: ERC person", "what: ERC title", "when: 1999", "where: " + j.ARK} {
		if !strings.Contains(erc, want) {
			t.Errorf("%q is not in %s", want, erc)
		}
	}
	r := w.ingest(Submission{Filename: "c.zip"},
		zipOf(t, "mrt-dc.xml", `<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><dc><title>&a;</title></dc>`))
	if r.State != record.Completed || len(r.Jobs[0].Warnings) != 2 || strings.Contains(r.Text(), "root:") {
		t.Errorf("got %s", r.Text())
	}
}

func TestUnknownSizes(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha"})
	s.answer("a.txt", s.mute("alpha"))
	w := start(t)
	text := manifest("mrt-ingest-manifest", s.URL+"/a.txt |  |  |  |  | a.txt")
	for priority, want := range map[int]int{20: 30, 95: 99} {
		j := w.one(Submission{Priority: &priority}, text)
		got, err := w.store.Get(t.Context(), j.Job)
		if err != nil || got.Priority != want {
			t.Errorf("got %d, %v; want %d", got.Priority, err, want)
		}
	}
}

func TestPriorityOfBatches(t *testing.T) {
	p := &profile.Profile{}
	for jobs, want := range map[int]int{1: 5, 2: 11, 3: 15, 10: 28, 100: 51, 1000: 74, 10_000: 97, 12_089: 99,
		1_000_000: 99} {
		if got := priority(jobs, p, &record.BatchSpec{}); got != want {
			t.Errorf("%d jobs: got %d, want %d", jobs, got, want)
		}
	}
}

func TestManyRows(t *testing.T) {
	const n = 60
	s := newSite(t, nil)
	var rows []string
	for i := range n {
		name := fmt.Sprintf("f%03d.txt", i)
		s.put(name, "text "+name)
		rows = append(rows, s.row(name, "", name))
	}
	w := start(t)
	r := w.ingest(Submission{}, manifest("mrt-single-file-batch-manifest", rows...))
	if r.State != record.Completed || r.Completed != n {
		t.Fatalf("got %d completed, %s", r.Completed, r.Status)
	}
	arks := map[string]bool{}
	for i, j := range r.Jobs {
		arks[j.ARK] = true
		if j.Title != fmt.Sprintf("f%03d.txt", i) {
			t.Errorf("job %d is about %s", i, j.Title)
		}
	}
	if len(arks) != n || !slices.IsSortedFunc(r.Jobs, func(a, b report.Job) int { return a.Row - b.Row }) {
		t.Errorf("got %d arks", len(arks))
	}
	w.valid()
}
