package profile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// folder is a profile directory that a test changes.
type folder struct {
	t   *testing.T
	dir string
}

func newFolder(t *testing.T) folder {
	t.Helper()
	f := folder{t, filepath.Join(t.TempDir(), "profiles")}
	if err := os.Mkdir(f.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f.put("maps.yaml", "id: maps\nowner: one\n")
	return f
}

func (f folder) put(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// replace writes a file as careful editors do: beside it, then by one rename.
func (f folder) replace(name, text string) {
	f.t.Helper()
	f.put("."+name+".tmp", text)
	if err := os.Rename(filepath.Join(f.dir, "."+name+".tmp"), filepath.Join(f.dir, name)); err != nil {
		f.t.Fatal(err)
	}
}

func (f folder) remove(name string) {
	f.t.Helper()
	if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
		f.t.Fatal(err)
	}
}

func (f folder) open() *Live {
	f.t.Helper()
	l, err := Open(f.dir, time.Now)
	if err != nil {
		f.t.Fatal(err)
	}
	return l
}

func TestReload(t *testing.T) {
	f := newFolder(t)
	f.put("same.yaml", "id: same\n")
	l := f.open()
	old, _ := l.Get("maps")
	same, _ := l.Get("same")
	f.put("maps.yaml", "id: maps\nowner: two\n")
	f.put("films.yaml", "id: films\n")
	c, err := l.Reload()
	if err != nil || c.String() != "added films; changed maps" {
		t.Errorf("got %s, %v", &c, err)
	}
	if p, _ := l.Get("maps"); p.Owner != "two" || old.Owner != "one" {
		t.Errorf("got %s, and %s for the holder of the old one", p.Owner, old.Owner)
	}
	if p, _ := l.Get("same"); p != same {
		t.Error("a profile whose file did not change is another one")
	}
	if c, err := l.Reload(); err != nil || !c.None() || c.String() != "nothing changed" {
		t.Errorf("got %s, %v", &c, err)
	}
	f.remove("films.yaml")
	if c, err := l.Reload(); err != nil || c.String() != "removed films" {
		t.Errorf("got %s, %v", &c, err)
	}
	if _, ok := l.Get("films"); ok {
		t.Error("it is still there")
	}
}

func TestReloadKeepsWhatIsValid(t *testing.T) {
	f := newFolder(t)
	l := f.open()
	f.put("maps.yaml", "id: maps\nowner: two\ncolour: red\n")
	f.put("films.yaml", "id: films\n")
	_, err := l.Reload()
	var m Mistakes
	if !errors.As(err, &m) || len(m) != 1 || !strings.HasSuffix(m[0].File, "maps.yaml") || m[0].Line != 3 {
		t.Errorf("got %v", err)
	}
	if p, _ := l.Get("maps"); p.Owner != "one" {
		t.Errorf("got %s", p.Owner)
	}
	if _, ok := l.Get("films"); ok {
		t.Error("half a set was taken")
	}
	if s := l.Status(); !strings.Contains(s.Fault, "maps.yaml:3:1: colour") || s.Since.IsZero() {
		t.Errorf("got %+v", s)
	}
	f.put("maps.yaml", "id: maps\nowner: two\n")
	if c, err := l.Reload(); err != nil || c.String() != "added films; changed maps" {
		t.Errorf("got %s, %v", &c, err)
	}
	if s := l.Status(); s.Fault != "" || !s.Since.IsZero() {
		t.Errorf("got %+v", s)
	}
}

func TestOpenRefuses(t *testing.T) {
	f := newFolder(t)
	f.put("a.yaml", "id: a\nx: 1\n")
	f.put("b.yaml", "id: maps\n")
	_, err := Open(f.dir, time.Now)
	if err == nil || !strings.Contains(err.Error(), "a.yaml:2:1: x") || !strings.Contains(err.Error(), "is also in") ||
		!strings.HasPrefix(err.Error(), "2 mistakes") {
		t.Errorf("got %v", err)
	}
}

// report is a report of Watch.
type report struct {
	change Change
	err    error
}

// watch watches with a real directory; the rescan comes on a signal of the test.
func (f folder) watch(l *Live) (news chan report, rescan chan time.Time) {
	f.t.Helper()
	news, rescan = make(chan report, 100), make(chan time.Time)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w := Watching{Settle: 5 * time.Millisecond, Rescan: time.Hour, After: func(d time.Duration) <-chan time.Time {
			if d == time.Hour {
				return rescan
			}
			return time.After(d)
		}}
		l.Watch(ctx, w, func(c Change, err error) { news <- report{c, err} })
	}()
	f.t.Cleanup(func() { cancel(); <-done })
	return news, rescan
}

// until waits for a piece of news. A file that is written may be read while it is half there: that is reported too,
// and corrected by the next report.
func until(t *testing.T, news chan report, want string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case n := <-news:
			text := n.change.String()
			if n.err != nil {
				text = n.err.Error()
			}
			if strings.Contains(text, want) {
				return
			}
			t.Logf("also reported: %s", text)
		case <-deadline:
			t.Fatalf("not reported: %s", want)
		}
	}
}

// TestWatch changes the directory in the ways of people and programs.
func TestWatch(t *testing.T) {
	f := newFolder(t)
	l := f.open()
	f.put("early.yaml", "id: early\n") // before the watch begins
	news, rescan := f.watch(l)
	until(t, news, "added early")
	rescan <- time.Now() // from here on the directory is watched
	f.put("films.yaml", "id: films\n")
	until(t, news, "added films")
	f.replace("films.yaml", "id: films\nowner: x\n")
	until(t, news, "changed films")
	f.put("films.yaml", "id: [\n")
	until(t, news, "films.yaml:1:")
	if _, ok := l.Get("films"); !ok {
		t.Error("it went with the mistake")
	}
	f.put("films.yaml", "id: films\nowner: y\n")
	until(t, news, "changed films")
	f.remove("films.yaml")
	until(t, news, "removed films")
	// The whole directory is exchanged: only the rescan can know, and after it the new one is watched.
	if err := os.Rename(f.dir, f.dir+".old"); err != nil {
		t.Fatal(err)
	}
	other := folder{t, f.dir}
	if err := os.Mkdir(f.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	other.put("tapes.yaml", "id: tapes\n")
	rescan <- time.Now()
	until(t, news, "added tapes")
	rescan <- time.Now()
	other.put("more.yaml", "id: more\n")
	until(t, news, "added more")
}

// TestSettle reads a burst of changes once: it waits for quiet, but not indefinitely. The clock is the test's.
func TestSettle(t *testing.T) {
	quiet, last := make(chan time.Time), make(chan time.Time)
	w := Watching{Settle: time.Second, After: func(d time.Duration) <-chan time.Time {
		if d == time.Second {
			return quiet
		}
		return last
	}}
	changed, ended := make(chan struct{}), make(chan bool)
	begin := func(ctx context.Context) { go func() { ended <- w.settle(ctx, changed) }() }
	for name, end := range map[string]chan time.Time{"quiet": quiet, "too long": last} {
		begin(t.Context())
		for range 3 {
			changed <- struct{}{}
		}
		select {
		case <-ended:
			t.Errorf("%s: it did not wait", name)
		default:
		}
		end <- time.Now()
		if !<-ended {
			t.Errorf("%s: it is over", name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	begin(ctx)
	cancel()
	if <-ended {
		t.Error("it goes on after its context")
	}
}

// TestReloadWhileReading reads and replaces at the same time: every profile that is seen is whole.
func TestReloadWhileReading(t *testing.T) {
	f := newFolder(t)
	l := f.open()
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				p, ok := l.Get("maps")
				if !ok || p.Owner != p.Description && p.Description != "" || len(l.IDs()) != 2 {
					t.Errorf("got %+v", p)
					return
				}
				_ = l.Status()
			}
		})
	}
	for i := range 200 {
		text := []string{"id: maps\nowner: two\ndescription: two\n", "id: maps\nowner: three\ndescription: three\n",
			"id: maps\nx: 1\n"}[i%3]
		f.replace("maps.yaml", text)
		if _, err := l.Reload(); (err != nil) != (i%3 == 2) {
			t.Fatal(err)
		}
	}
	close(stop)
	all.Wait()
}
