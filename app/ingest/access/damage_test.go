package access

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/format/pack"
	"github.com/stagepost/stagepost/job"
)

// TestDamagedInStorage changes or removes a file in one storage location, then in both. The control is that storage
// itself gives the wrong bytes away: nothing but the check of the digests stands between them and the package.
func TestDamagedInStorage(t *testing.T) {
	w := start(t, nil)
	ark := w.object("l1", files)
	for name, spoil := range map[string]func(string){
		"other bytes": func(file string) { rewrite(t, file, "ALPHA") },
		"shorter":     func(file string) { rewrite(t, file, "alph") },
		"longer":      func(file string) { rewrite(t, file, "alphabet") },
		"missing": func(file string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		},
		"a link": func(file string) {
			if err := errors.Join(os.Remove(file), os.Symlink("/etc/hostname", file)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.t = t
			one, two := w.inStorage(ark, "first", "producer/a.txt"), w.inStorage(ark, "second", "producer/a.txt")
			restore := func(file string) {
				_ = os.Remove(file)
				rewriteNew(t, file, "alpha")
			}
			defer restore(one)
			defer restore(two)
			spoil(one)
			s := w.ready(Request{Object: ark, Format: FormatBagTAR, Name: "x"})
			if got := unpacked(t, FormatTAR, w.fetch(s.Token))["x/data/producer/a.txt"]; got != "alpha" {
				t.Errorf("got %q", got)
			}
			if len(s.Damaged) != 1 || !strings.Contains(s.Damaged[0], "producer/a.txt") ||
				!strings.Contains(s.Damaged[0], "first") ||
				!strings.Contains(s.Message, "producer/a.txt") {
				t.Errorf("got %+v", s)
			}
			if name == "other bytes" {
				if text, err := os.ReadFile(one); err != nil || string(text) != "ALPHA" {
					t.Errorf("the control: %q, %v", text, err)
				}
			}
			spoil(two)
			failed := w.end(w.request(Request{Object: ark}).Job)
			cause := ingest.CauseBadDigest
			if name == "missing" || name == "a link" {
				cause = ingest.CauseStorage
			}
			if failed.State != record.Failed || failed.Cause != cause ||
				!strings.Contains(failed.Message, "producer/a.txt") ||
				!strings.Contains(failed.Message, "second") {
				t.Errorf("got %s (%s: %s)", failed.State, failed.Cause, failed.Message)
			}
			if left, err := filepath.Glob(filepath.Join(w.dir, dirName, string(failed.ID), "*")); err != nil ||
				len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
	if s := w.ready(Request{Object: ark}); len(s.Damaged) > 0 || s.Message != "ready" {
		t.Errorf("the control: got %+v", s)
	}
}

func rewriteNew(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestPlacesThatAreNotThere fails when no location can be read, and continues by retry and by requeue once they are
// back. None is created.
func TestPlacesThatAreNotThere(t *testing.T) {
	w := start(t, nil)
	ark := w.object("l1", files)
	away := func(from, to string) {
		for _, place := range []string{"first", "second"} {
			if err := os.Rename(filepath.Join(w.dir, place+from), filepath.Join(w.dir, place+to)); err != nil {
				t.Fatal(err)
			}
		}
	}
	away("", ".away")
	s := w.request(Request{Object: ark})
	two := w.request(Request{Object: ark})
	for _, one := range []Status{s, two} {
		j := w.end(one.Job)
		if j.State != record.Failed || j.Cause != ingest.CauseStorage {
			t.Errorf("got %s (%s: %s)", j.State, j.Cause, j.Message)
		}
		st := w.status(one.Token)
		if st.Code != CodeFailed || st.Cause != ingest.CauseStorage || !strings.Contains(st.Message, "first") ||
			st.Expires.IsZero() {
			t.Errorf("got %+v", st)
		}
		if _, err := w.Open(t.Context(), one.Token); job.KindOf(err) != job.Refused ||
			!strings.Contains(err.Error(), "first") {
			t.Errorf("got %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(w.dir, "first")); err == nil {
		t.Error("a storage location was made")
	}
	away(".away", "")
	w.do(s.Job, record.Retry)
	w.do(two.Job, record.Requeue)
	for _, one := range []Status{s, two} {
		if j := w.end(one.Job); j.State != record.Completed {
			t.Errorf("got %s (%s: %s)", j.State, j.Cause, j.Message)
		}
		w.fetch(one.Token)
	}
}

// TestStorageChangesAfterwards changes a file of a package that is ready: what is read is what was packed, or an error
// that names the file.
func TestStorageChangesAfterwards(t *testing.T) {
	w := start(t, nil)
	ark := w.object("l1", files)
	s := w.ready(Request{Object: ark})
	whole := w.fetch(s.Token)
	file := w.inStorage(ark, "first", "producer/dir/b.bin")
	for name, text := range map[string]string{
		"shorter": "b", "longer": files["dir/b.bin"] +
			"x", "as long": strings.ReplaceAll(files["dir/b.bin"], "beta", "BETA"),
	} {
		rewrite(t, file, text)
		got, err := io.ReadAll(w.open(s.Token))
		var at *pack.ContentError
		if !errors.Is(err, pack.ErrChanged) || !errors.As(err, &at) ||
			!strings.HasSuffix(at.Name, "producer/dir/b.bin") || len(got) >= len(whole) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	rewrite(t, file, files["dir/b.bin"])
	if !bytes.Equal(w.fetch(s.Token), whole) {
		t.Error("the control: it is not as it was")
	}
}

// altered is a holding of which something is no longer as it was.
type altered struct {
	Holdings
	objects func([]ingest.Object) []ingest.Object
	files   func([]ingest.StoredFile) []ingest.StoredFile
}

func (a *altered) Objects(ctx context.Context, q ingest.ObjectQuery) ([]ingest.Object, error) {
	all, err := a.Holdings.Objects(ctx, q)
	if a.objects != nil {
		all = a.objects(all)
	}
	return all, err
}

func (a *altered) Files(ctx context.Context, ark string, version int, after string, limit int) ([]ingest.StoredFile,
	error) {
	all, err := a.Holdings.Files(ctx, ark, version, after, limit)
	if a.files != nil {
		all = a.files(all)
	}
	return all, err
}

// TestChangedSinceTheRequest: what was there when it was asked for and is not any more, or is too much by now, fails
// with its cause.
func TestChangedSinceTheRequest(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*altered, *Options)
		cause  string
	}{
		"the object is gone": {func(a *altered, _ *Options) {
			a.objects = func([]ingest.Object) []ingest.Object { return nil }
		}, ingest.CauseNotFound},
		"the version is gone": {func(a *altered, _ *Options) {
			a.objects = func(all []ingest.Object) []ingest.Object { all[0].Versions = nil; return all }
		}, ingest.CauseNotFound},
		"a file is gone": {func(a *altered, _ *Options) {
			a.files = func(all []ingest.StoredFile) []ingest.StoredFile { return all[1:] }
		}, ingest.CauseNotFound},
		"no location is known": {func(a *altered, _ *Options) {
			a.objects = func(all []ingest.Object) []ingest.Object { all[0].Versions[0].Places = nil; return all }
		}, ingest.CauseStorage},
		"a name that no archive has": {func(a *altered, _ *Options) {
			a.files = func(all []ingest.StoredFile) []ingest.StoredFile { all[0].Path = "../x"; return all }
		}, ingest.CauseStorage}, // storage has no such file
		"fewer files are allowed": {func(_ *altered, o *Options) { o.MaxFiles = 1 }, ingest.CauseTooLarge},
		"fewer bytes are allowed": {func(_ *altered, o *Options) { o.MaxBytes = 1 }, ingest.CauseTooLarge},
		"the control":             {func(*altered, *Options) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, nil)
			ark := w.object("l1", files)
			hold(t, w, SmallTag, true)
			s := w.request(Request{Object: ark, Format: FormatBagZIP})
			holdings := &altered{Holdings: w.ingest}
			o := w.options
			c.change(holdings, &o)
			o.Holdings = holdings
			w.options = o // no worker claims it: its queue is on hold
			hold(t, w, SmallTag, false)
			if j := w.end(s.Job); j.Cause != c.cause {
				t.Errorf("got %s (%s: %s)", j.State, j.Cause, j.Message)
			}
		})
	}
}
