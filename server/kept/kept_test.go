package kept

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

var noon = time.Now()

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func nameOf(text string) Sum { return sha256.Sum256([]byte(text)) }

// begin begins a request, and fails unless it is to be carried out as wanted.
func begin(t *testing.T, a *Answers, name string, at time.Time, first bool) (*Answer, *Held) {
	t.Helper()
	one, held, err := a.Begin(t.Context(), nameOf(name), at)
	check(t, err)
	if (held != nil) != first || (one == nil) != first {
		t.Fatalf("%s: %+v, to be carried out: %t", name, one, held != nil)
	}
	return one, held
}

func keep(t *testing.T, a *Answers, name string, at time.Time, body string) {
	t.Helper()
	_, held := begin(t, a, name, at, true)
	check(t, held.Keep(&Answer{At: at, Request: []byte{1}, Status: http.StatusCreated, Body: []byte(body)}))
}

// TestKept: an answer is given to repetitions, by another user of the directory too, for its time. Controls: another
// name, and a request that was refused.
func TestKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "when needed")
	a, b := &Answers{Dir: dir}, &Answers{Dir: dir}
	keep(t, a, "k", noon, "one")
	for _, one := range []*Answers{a, b} {
		if got, _ := begin(t, one, "k", noon.Add(For-1), false); string(got.Body) != "one" || got.Status != 201 {
			t.Errorf("%+v", got)
		}
	}
	for range 2 {
		_, held := begin(t, b, "other", noon, true)
		held.Drop()
	}
	keep(t, b, "k", noon.Add(For), "two")
	if got, _ := begin(t, a, "k", noon.Add(For), false); string(got.Body) != "two" {
		t.Errorf("%s", got.Body)
	}
}

// TestCut: what a server left that ended while it carried out a request, or wrote the answer, is no answer.
func TestCut(t *testing.T) {
	a := &Answers{Dir: t.TempDir()}
	keep(t, a, "k", noon, "one")
	name := nameOf("k")
	path := filepath.Join(a.Dir, hex.EncodeToString(name[:]))
	whole, err := os.ReadFile(path)
	check(t, err)
	for n := range len(whole) {
		check(t, os.WriteFile(path, whole[:n], 0o600))
		_, held := begin(t, a, "k", noon, true)
		check(t, held.file.Close()) // as the end of the process
	}
	check(t, os.WriteFile(path, make([]byte, len(whole)), 0o600)) // a loss of power
	_, held := begin(t, a, "k", noon, true)
	check(t, held.file.Close())
	check(t, os.WriteFile(path, whole, 0o600))
	begin(t, a, "k", noon, false)
}

// TestWaits: a repetition waits while the request is carried out, until its context ends. It gets the answer, or
// carries a refused request out itself.
func TestWaits(t *testing.T) {
	dir := t.TempDir()
	for name, refused := range map[string]bool{"answered": false, "refused": true} {
		_, held := begin(t, &Answers{Dir: dir}, name, noon, true)
		type result struct {
			one  *Answer
			held *Held
			err  error
		}
		got := make(chan result)
		go func() {
			one, held, err := (&Answers{Dir: dir}).Begin(t.Context(), nameOf(name), noon)
			got <- result{one, held, err}
		}()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := (&Answers{Dir: dir}).Begin(ended, nameOf(name), noon); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, canceled: %v", name, err)
		}
		if refused {
			held.Drop()
		} else {
			check(t, held.Keep(&Answer{At: noon, Body: []byte("x")}))
		}
		r := <-got
		if r.err != nil || (r.held != nil) != refused {
			t.Errorf("%s: %+v", name, r)
		}
		if r.held != nil {
			r.held.Drop()
		}
	}
}

// TestTidy: old answers are removed, and the oldest ones if there are too many or they are too large. Controls: those
// within the bounds, and one that is being made.
func TestTidy(t *testing.T) {
	a := &Answers{Dir: t.TempDir()}
	_, held := begin(t, a, "being made", noon, true)
	age := func(name string, by time.Duration) string {
		sum := nameOf(name)
		path := filepath.Join(a.Dir, hex.EncodeToString(sum[:]))
		check(t, os.Chtimes(path, time.Time{}, noon.Add(-by)))
		return path
	}
	paths := map[string]string{"being made": age("being made", 3*For)}
	for name, by := range map[string]time.Duration{"old": For, "young": For - time.Minute, "new": 0} {
		keep(t, a, name, noon, name)
		paths[name] = age(name, by)
	}
	there := func(want map[string]bool) {
		t.Helper()
		a.next = time.Time{}
		a.tidy(noon)
		for name, path := range paths {
			if _, err := os.Stat(path); (err == nil) != want[name] {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	there(map[string]bool{"being made": true, "young": true, "new": true})
	check(t, os.Truncate(paths["new"], Bytes+1)) // of the sum, with the others
	age("new", 0)
	there(map[string]bool{"being made": true})
	for i := range Most {
		check(t, os.WriteFile(filepath.Join(a.Dir, strconv.Itoa(i)), nil, 0o600))
	}
	keep(t, a, "old", noon, "x")
	age("old", time.Minute)
	held.Drop()
	there(map[string]bool{})
}
