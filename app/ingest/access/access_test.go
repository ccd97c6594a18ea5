package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/format/bagit"
	"github.com/stagepost/stagepost/format/pack"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

var files = map[string]string{
	"a.txt": "alpha", "dir/b.bin": strings.Repeat("beta ", 30_000), "größe.txt": "weiß", "empty": "", "100%.txt": "all",
}

var allFormats = []string{FormatZIP, FormatTAR, FormatBagZIP, FormatBagTAR}

// TestPackages asks for the newest version, an older one and a list of files, in every format. What is in the package
// is what is in storage; a second request gives the same bytes under the same entity tag.
func TestPackages(t *testing.T) {
	w := start(t, nil)
	ark := w.object("l1", files)
	newer := maps.Clone(files)
	newer["a.txt"] = "alpha, revised"
	w.object("l1", newer)
	first, second := w.stored(ark, 1), w.stored(ark, 2)
	if first["producer/a.txt"] != "alpha" || second["producer/a.txt"] != "alpha, revised" {
		t.Fatalf("got %q and %q", first["producer/a.txt"], second["producer/a.txt"])
	}
	list := map[string]string{"producer/a.txt": second["producer/a.txt"], "producer/größe.txt": "weiß"}
	name := strings.ReplaceAll(strings.ReplaceAll(ark, ":/", "-"), "/", "-")
	for _, format := range allFormats {
		for _, c := range []struct {
			request Request
			want    map[string]string
			name    string
		}{
			{Request{Object: ark}, second, name + "-v2"},
			{Request{LocalID: "l1", Owner: "library", Version: 1}, first, name + "-v1"},
			{Request{Object: ark, Files: []string{"größe.txt", "producer/a.txt", "a.txt"}, Name: "Zwei Bilder"}, list,
				"Zwei Bilder"},
		} {
			c.request.Format = format
			s := w.ready(c.request)
			data := w.fetch(s.Token)
			if int64(len(data)) != s.Size || s.Files != len(c.want) || s.Done != s.Bytes ||
				s.File != c.name+formats[format].ending || s.Expires.IsZero() {
				t.Errorf("%s: got %+v", format, s)
			}
			want := map[string]string{}
			for path, text := range c.want {
				if formats[format].bag {
					path = "data/" + path
				}
				want[c.name+"/"+path] = text
			}
			got := unpacked(t, format, data)
			if formats[format].bag {
				maps.DeleteFunc(got, func(path, _ string) bool { return strings.Count(path, "/") == 1 })
				checkBag(t, data, int64(len(want)))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", format, diff)
			}
			byCommand(t, format, data, want)
			again := w.ready(c.request)
			if again.ETag != s.ETag || again.Token == s.Token || !bytes.Equal(w.fetch(again.Token), data) {
				t.Errorf("%s: the second package is another", format)
			}
		}
	}
}

func checkBag(t *testing.T, data []byte, files int64) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "bag")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := bagit.Validate(t.Context(), name, bagit.Options{})
	if err != nil || !r.Valid() || len(r.Warnings) > 0 || r.Files != files {
		t.Errorf("got %+v, %v", r, err)
	}
}

// byCommand lets the commands that people have unpack a package.
func byCommand(t *testing.T, format string, data []byte, want map[string]string) {
	t.Helper()
	dir := t.TempDir()
	file, out := filepath.Join(dir, "package"), filepath.Join(dir, "out")
	if err := errors.Join(os.WriteFile(file, data, 0o600), os.Mkdir(out, 0o700)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unzip", "-q", file, "-d", out)
	if strings.HasSuffix(format, "tar") {
		cmd = exec.Command("tar", "-xf", file, "-C", out)
	}
	if cmd.Err != nil {
		t.Logf("%v: the package was read by the standard library alone", cmd.Err)
		return
	}
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for path, text := range want {
		if got, err := os.ReadFile(filepath.Join(out, path)); err != nil || string(got) != text {
			t.Errorf("%s: %s: %v", cmd.Path, path, err)
		}
	}
}

// TestRanges puts a package together from pieces of any size in any order.
func TestRanges(t *testing.T) {
	w := start(t, nil)
	ark := w.object("l1", files)
	for _, format := range allFormats {
		s := w.ready(Request{Object: ark, Format: format})
		whole := w.fetch(s.Token)
		p := w.open(s.Token)
		got := make([]byte, len(whole))
		var cuts []int
		for range 50 {
			cuts = append(cuts, rand.IntN(len(whole)))
		}
		slices.Sort(cuts)
		cuts = append(append([]int{0}, cuts...), len(whole))
		for _, i := range rand.Perm(len(cuts) - 1) {
			if _, err := p.Seek(int64(cuts[i]), io.SeekStart); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(p, got[cuts[i]:cuts[i+1]]); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, whole) {
			t.Errorf("%s: the pieces do not make the whole", format)
		}
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	w := start(t, func(o *Options) { o.MaxFiles = 8 })
	ark := w.object("l1", files)
	many := map[string]string{}
	for i := range 10 {
		many[fmt.Sprint(i)] = "x"
	}
	large := w.object("l2", many)
	for name, c := range map[string]struct {
		r    Request
		kind job.ErrorKind
	}{
		"no object":           {Request{}, job.Invalid},
		"two names":           {Request{Object: ark, LocalID: "l1"}, job.Invalid},
		"no ARK":              {Request{Object: "map"}, job.Invalid},
		"unknown object":      {Request{Object: "ark:/99999/fk4nothing"}, job.NotFound},
		"unknown local id":    {Request{LocalID: "l9"}, job.NotFound},
		"a user's":            {Request{Object: ark, User: "bob"}, job.NotFound},
		"no object for staff": {Request{Object: "ark:/99999/fk4nothing", User: "otto", Staff: true}, job.NotFound},
		"another owner's":     {Request{LocalID: "l1", Owner: "somebody"}, job.NotFound},
		"unknown version":     {Request{Object: ark, Version: 9}, job.NotFound},
		"negative version":    {Request{Object: ark, Version: -1}, job.Invalid},
		"unknown file":        {Request{Object: ark, Files: []string{"a.txt", "z.txt"}}, job.NotFound},
		"a file without name": {Request{Object: ark, Files: []string{""}}, job.Invalid},
		"a file outside":      {Request{Object: ark, Files: []string{"../../inventory.json"}}, job.NotFound},
		"too long a list":     {Request{Object: ark, Files: make([]string, maxNames+1)}, job.Invalid},
		"unknown format":      {Request{Object: ark, Format: "rar"}, job.Invalid},
		"too many files":      {Request{Object: large}, job.Refused},
		"a path as name":      {Request{Object: ark, Name: "../x"}, job.Invalid},
		"a header in a name":  {Request{Object: ark, Name: "x\r\nSet-Cookie: a=b"}, job.Invalid},
		"a quote in a name":   {Request{Object: ark, Name: `x"; filename="evil.exe`}, job.Invalid},
		"a hidden name":       {Request{Object: ark, Name: ".bashrc"}, job.Invalid},
		"a name as an option": {Request{Object: ark, Name: "-rf"}, job.Invalid},
		"a turned name":       {Request{Object: ark, Name: "x\u202egpj.exe"}, job.Invalid},
		"too long a name":     {Request{Object: ark, Name: strings.Repeat("x", 121)}, job.Invalid},
		"a bell in a key":     {Request{Object: ark, Key: "k\a"}, job.Invalid},
		"a requester's line":  {Request{Object: ark, Requester: "ann\nroot"}, job.Invalid},
		"too long a key":      {Request{Object: ark, Key: strings.Repeat("x", 256)}, job.Invalid},
	} {
		if _, err := w.Request(t.Context(), c.r); job.KindOf(err) != c.kind {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := w.Request(t.Context(), Request{Object: ark, User: "otto", Staff: true}); !errors.Is(err, ErrForeign) {
		t.Errorf("staff that is no owner: got %v", err)
	}
	w.ready(Request{Object: large, Files: []string{"1", "2"}}) // the control
	if page, err := w.store.List(t.Context(), job.Query{Kinds: []job.Kind{Kind}}); err != nil || len(page.Jobs) != 1 {
		t.Errorf("%d jobs, %v", len(page.Jobs), err)
	}
}

func TestKey(t *testing.T) {
	w := start(t, nil)
	ark := w.object("l1", files)
	one := w.request(Request{Object: ark, Key: "k", Requester: "ann", Files: []string{"a.txt"}})
	two := w.request(Request{Object: ark, Key: "k", Requester: "ann", Files: []string{"producer/a.txt"}})
	if one.Token != two.Token || one.Job != two.Job {
		t.Errorf("got %+v and %+v", one, two)
	}
	if _, err := w.Request(t.Context(),
		Request{Object: ark, Key: "k", Requester: "ann"}); job.KindOf(err) != job.Conflict {
		t.Errorf("another request: got %v", err)
	}
	if other := w.request(Request{Object: ark, Key: "k", Requester: "bob"}); other.Token == one.Token {
		t.Error("a stranger's key gives the token away")
	}
	newest := Request{Object: ark, Key: "newest", Requester: "ann", Files: []string{"a.txt"}}
	before := w.request(newest)
	changed := maps.Clone(files)
	changed["a.txt"] = "alpha, revised"
	w.object("l1", changed)
	if after := w.request(newest); after.Token != before.Token || after.Version != 1 {
		t.Errorf("the same request after a new version: got %+v", after)
	}
	newest.Version = 2 // the control: another request
	if _, err := w.Request(t.Context(), newest); job.KindOf(err) != job.Conflict {
		t.Errorf("another version: got %v", err)
	}
}

// TestNamesOfFiles: the path of a file means that file, even if the depositor has one of that path below producer/.
func TestNamesOfFiles(t *testing.T) {
	w := start(t, nil)
	ark := w.object("l1", map[string]string{"system/mrt-owner.txt": "the depositor's", "producer/x": "deeper",
		"x": "plain", "only": "once"})
	stored := w.stored(ark, 1)
	for _, c := range []struct{ asked, want []string }{
		{[]string{"system/mrt-owner.txt"}, []string{"system/mrt-owner.txt"}},
		{[]string{"producer/system/mrt-owner.txt"}, []string{"producer/system/mrt-owner.txt"}},
		{[]string{"producer/x"}, []string{"producer/x"}},
		{[]string{"x", "producer/producer/x", "only", "producer/only", "x"},
			[]string{"producer/only", "producer/producer/x", "producer/x"}},
	} {
		s := w.ready(Request{Object: ark, Files: c.asked, Name: "p"})
		got := unpacked(t, FormatZIP, w.fetch(s.Token))
		want := map[string]string{}
		for _, name := range c.want {
			want["p/"+name] = stored[name]
		}
		if diff := cmp.Diff(want, got); diff != "" || s.Files != len(c.want) {
			t.Errorf("%v: %d files, %s", c.asked, s.Files, diff)
		}
	}
}

// TestNoRecordHasAToken searches for the token in all records of a job, and in the store of a process that comes later;
// the key alone gives it.
func TestNoRecordHasAToken(t *testing.T) {
	store, dir := mem.New(), t.TempDir()
	w := startOn(t, store, dir, nil)
	s := w.ready(Request{Object: w.object("l1", files), Key: "k"})
	j, err := store.Get(t.Context(), s.Job)
	if err != nil {
		t.Fatal(err)
	}
	history, err := store.History(t.Context(), s.Job, 0, 100)
	if err != nil || len(history) == 0 {
		t.Fatal(err)
	}
	text, err := json.Marshal([]any{j, history})
	if err != nil || !bytes.Contains(text, []byte(s.Job)) {
		t.Fatalf("%s, %v", text, err)
	}
	if bytes.Contains(bytes.ToLower(text), []byte(s.Token[idLength:])) {
		t.Errorf("the token stands in %s", text)
	}
	if err := w.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.stop()
	long := time.Now().Add(-2 * youngest)
	if err := os.Chtimes(filepath.Join(dir, dirName, keyName), long, long); err != nil {
		t.Fatal(err)
	}
	later := startOn(t, store, dir, nil)
	if err := later.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	later.fetch(s.Token)
	later.stop()
	if info, err := os.Stat(filepath.Join(dir, dirName, keyName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}
	if err := os.Remove(filepath.Join(dir, dirName, keyName)); err != nil {
		t.Fatal(err)
	}
	other := startOn(t, store, dir, nil)
	if _, err := other.Open(t.Context(), s.Token); job.KindOf(err) != job.NotFound {
		t.Errorf("another key gives the same token: %v", err)
	}
	other.stop()
	if err := os.WriteFile(filepath.Join(dir, dirName, keyName), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Dir: dir, Holdings: w.ingest}); err == nil || !strings.Contains(err.Error(), keyName) {
		t.Errorf("a key that was cut: got %v", err)
	}
}

// TestTokens: nothing but the whole token gives anything, and no answer helps to guess one.
func TestTokens(t *testing.T) {
	w := start(t, nil)
	ark := w.object("l1", map[string]string{"a.txt": "alpha"})
	s := w.ready(Request{Object: ark})
	batch, err := w.store.List(t.Context(), job.Query{Kinds: []job.Kind{record.JobKind}})
	if err != nil {
		t.Fatal(err)
	}
	last := byte('a')
	if s.Token[tokenLength-1] == 'a' {
		last = 'b'
	}
	other := w.ready(Request{Object: ark})
	for name, token := range map[string]string{
		"empty": "", "the id alone": s.Token[:idLength], "the id of the job": string(s.Job),
		"upper case":      strings.ToUpper(s.Token),
		"one letter else": s.Token[:tokenLength-1] + string(last), "longer": s.Token +
			"a", "no secret": s.Token[:idLength] + strings.Repeat("a", idLength),
		"the secret of another": s.Token[:idLength] +
			other.Token[idLength:], "a job of another kind": strings.ToLower(string(batch.Jobs[0].ID)[4:]) +
			s.Token[idLength:],
		"a path": "../../../../../../etc/passwd/aaaaaaaaaaaaaaaaaaaaaaa", "no letters": strings.Repeat("\x00",
			tokenLength),
	} {
		_, err := w.Status(t.Context(), token)
		_, err2 := w.Open(t.Context(), token)
		for _, err := range []error{err, err2} {
			if job.KindOf(err) != job.NotFound || !errors.Is(err, errNoToken) || err.Error() != errNoToken.Error() {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
	if s.Token[idLength:] == other.Token[idLength:] || len(s.Token) != 52 {
		t.Errorf("got %s and %s", s.Token, other.Token)
	}
}

// TestExpiry: a package can be fetched until its time is over, from then on not, though it is still there; then job and
// plan go. Who has begun to read goes on.
func TestExpiry(t *testing.T) {
	w := start(t, func(o *Options) { o.Keep = time.Hour })
	ark := w.object("l1", files)
	s := w.ready(Request{Object: ark, Format: FormatBagZIP})
	plan := filepath.Join(w.dir, dirName, string(s.Job))
	whole := w.fetch(s.Token) // the control
	if _, err := os.Stat(plan); err != nil {
		t.Fatal(err)
	}
	p := w.open(s.Token)
	head := make([]byte, 10)
	if _, err := io.ReadFull(p, head); err != nil {
		t.Fatal(err)
	}
	w.clock.ahead.Add(int64(time.Hour))
	if _, err := w.Open(t.Context(), s.Token); job.KindOf(err) != job.Gone {
		t.Errorf("got %v", err)
	}
	if _, err := w.Status(t.Context(), s.Token); job.KindOf(err) != job.Gone {
		t.Errorf("got %v", err)
	}
	w.clock.ahead.Add(int64(time.Minute))
	w.until(s.Job, func(j *job.Job) bool { return j.Gone })
	gone(t, plan)
	if _, err := w.Open(t.Context(), s.Token); job.KindOf(err) != job.Gone {
		t.Errorf("got %v", err)
	}
	rest, err := io.ReadAll(p)
	if err != nil || !bytes.Equal(append(head, rest...), whole) {
		t.Errorf("what was being read broke off: %d bytes, %v", len(rest), err)
	}
	ever := start(t, func(o *Options) { o.Keep = -1 })
	if s := ever.ready(Request{Object: ever.object("l1", files)}); !s.Expires.IsZero() {
		t.Errorf("it expires on %s", s.Expires)
	}
}

// TestDeleteAndSweep: a deleted package goes at once; the sweep finds what a crash has left, and leaves what is young
// or in use.
func TestDeleteAndSweep(t *testing.T) {
	w := start(t, nil)
	ark := w.object("l1", files)
	s, kept := w.ready(Request{Object: ark}), w.ready(Request{Object: ark})
	w.do(s.Job, record.Delete)
	gone(t, filepath.Join(w.dir, dirName, string(s.Job)))
	if _, err := w.Open(t.Context(), s.Token); job.KindOf(err) != job.Gone {
		t.Errorf("got %v", err)
	}
	old, young := filepath.Join(w.dir, dirName, "acc_old"), filepath.Join(w.dir, dirName, "acc_young")
	deleted := filepath.Join(w.dir, dirName, string(s.Job)) // as if the process had crashed before it could
	attempt := filepath.Join(w.dir, dirName, string(kept.Job), "plan-e7.new")
	for _, dir := range []string{old, young, deleted, attempt} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-2 * youngest)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	if err := w.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, there := range map[string]bool{old: false, deleted: false, attempt: false, young: true} {
		if _, err := os.Stat(name); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.fetch(kept.Token)
	if err := os.RemoveAll(filepath.Join(w.dir, dirName, string(kept.Job))); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Open(t.Context(), kept.Token); job.KindOf(err) != job.Gone {
		t.Errorf("a plan that somebody took away: got %v", err)
	}
}

func TestOptions(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("no directory")
	}
	a, err := New(Options{Dir: t.TempDir(), Holdings: &ingest.App{}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.Request(t.Context(), Request{}); job.KindOf(err) != job.Unavailable {
		t.Errorf("without an engine: got %v", err)
	}
	if _, err := a.Status(t.Context(), "x"); job.KindOf(err) != job.Unavailable {
		t.Errorf("without an engine: got %v", err)
	}
	limits := a.Works()[0].Limits
	if diff := cmp.Diff([]job.Limit{{Name: "access.small.workers", Kind: Kind, Tag: SmallTag, Max: 4},
		{Name: "access.large.workers", Kind: Kind, Tag: LargeTag, Max: 1}}, limits); diff != "" {
		t.Error(diff)
	}
	if a.queue(500_000_000) != SmallTag || a.queue(500_000_001) != LargeTag {
		t.Error("the border between small and large")
	}
	var _ pack.File = shared{}
	var _ engine.Step = begin
}
