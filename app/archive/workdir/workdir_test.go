package workdir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/internal/dirlock"
	"github.com/stagepost/stagepost/job"
)

func open(t *testing.T, base string, epoch int64) (*Dir, *Unit) {
	t.Helper()
	d, err := Open(base, "arc_1", epoch)
	if err != nil {
		t.Fatal(err)
	}
	u, err := d.Unit("activities/quiz-1")
	if err != nil {
		t.Fatal(err)
	}
	return d, u
}

func put(t *testing.T, u *Unit, item, name, text string) {
	t.Helper()
	err := u.Item(item, nil).Put(t.Context(), name, &source.Origin{Person: "19"}, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func done(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fill fetches items as an attempt does it: those that are complete are left alone.
func fill(t *testing.T, u *Unit, items int) (fetched int) {
	t.Helper()
	for i := range items {
		item := fmt.Sprintf("item-%d", i)
		if u.Done(item) {
			continue
		}
		fetched++
		put(t, u, item, item+"/a.txt", strings.Repeat(item, 10))
		put(t, u, item, item+"/b.txt", "b of "+item)
		done(t, u.Finish(item))
	}
	return fetched
}

// TestCutAnywhere: wherever a crash cuts the ledger, the next attempt ends with the same files, and fetches only items
// whose line is not complete.
func TestCutAnywhere(t *testing.T) {
	const items = 3
	whole := t.TempDir()
	d, u := open(t, whole, 1)
	fill(t, u, items)
	want := fmt.Sprint(u.Files())
	done(t, errors.Join(u.Close(), d.Close()))
	ledger := filepath.Join(whole, "arc_1", ledgerOf(u.name))
	text, err := os.ReadFile(ledger)
	done(t, err)
	for _, n := range cuts(string(text)) {
		done(t, os.WriteFile(ledger, text[:n], 0o600))
		d, u := open(t, whole, int64(n)+2)
		complete := strings.Count(string(text[:strings.LastIndexByte(string(text[:n]), '\n')+1]), `"done"`)
		fetched := fill(t, u, items)
		if got := fmt.Sprint(u.Files()); got != want {
			t.Fatalf("cut at %d: got %s, want %s", n, got, want)
		}
		if fetched != items-complete {
			t.Errorf("cut at %d: %d items were fetched, %d are complete", n, fetched, complete)
		}
		for _, f := range u.Files() {
			done(t, d.Verify(t.Context(), f))
		}
		done(t, errors.Join(u.Close(), d.Close()))
	}
}

// cuts gives the offsets of a cut: before and after each line end, and within each line.
func cuts(text string) (all []int) {
	at := 0
	for line := range strings.Lines(text) {
		all = append(all, at, at+1, at+len(line)/2, at+len(line)-1)
		at += len(line)
	}
	return append(all, at)
}

// TestDamage: after a power cut a file can lack bytes that the ledger states. Check finds every kind of damage, and the
// item is fetched again. Without Check it would count as complete.
func TestDamage(t *testing.T) {
	for name, damage := range map[string]func(string) error{
		"none":      func(string) error { return nil },
		"missing":   os.Remove,
		"empty":     func(f string) error { return os.Truncate(f, 0) },
		"cut":       func(f string) error { return os.Truncate(f, 5) },
		"other":     func(f string) error { return os.WriteFile(f, []byte("b of item-x"), 0o600) },
		"longer":    func(f string) error { return os.WriteFile(f, []byte("b of item-1 "), 0o600) },
		"one byte":  func(f string) error { return os.WriteFile(f, []byte("B of item-1"), 0o600) },
		"the first": func(f string) error { return os.Remove(strings.Replace(f, "b.txt", "a.txt", 1)) },
	} {
		base := t.TempDir()
		d, u := open(t, base, 1)
		fill(t, u, 3)
		done(t, errors.Join(u.Close(), d.Close()))
		done(t, damage(filepath.Join(base, "arc_1", ContentName, "activities/quiz-1/item-1/b.txt")))
		d, u = open(t, base, 2)
		if !u.Done("item-1") {
			t.Fatalf("%s: the control: it is not complete before the check", name)
		}
		done(t, u.Check(t.Context()))
		if got := fill(t, u, 3); (got == 1) != (name != "none") || got > 1 {
			t.Errorf("%s: %d items were fetched again", name, got)
		}
		for _, f := range u.Files() {
			done(t, d.Verify(t.Context(), f))
		}
		done(t, errors.Join(u.Close(), d.Close()))
	}
}

// TestNames: two items never get one name (defect B17 of the original), whatever the case of the letters, and a
// repetition gets the same names.
func TestNames(t *testing.T) {
	base := t.TempDir()
	var first string
	for epoch := range int64(3) {
		d, u := open(t, base, epoch+1)
		put(t, u, "one", "null.pdf", "1")
		put(t, u, "two", "null.pdf", "2")
		put(t, u, "three", "NULL.pdf", "3")
		put(t, u, "four", "null-2.pdf", "4")
		put(t, u, "one", "null.pdf", "1 again")
		var names []string
		for _, f := range u.Files() {
			names = append(names, f.Name+"="+f.Item)
		}
		got := strings.Join(names, " ")
		if first == "" {
			first = got
		}
		if got != first || len(names) != 4 {
			t.Errorf("attempt %d: got %s, want %s", epoch+1, got, first)
		}
		done(t, errors.Join(u.Close(), d.Close()))
	}
	for _, name := range []string{"", "..", "../a", "/a", "a/../b", "a//b"} {
		d, u := open(t, base, 9)
		err := u.Item("x", nil).Put(t.Context(), name, &source.Origin{}, func(io.Writer) error { return nil })
		if err == nil {
			t.Errorf("%q is accepted", name)
		}
		done(t, errors.Join(u.Close(), d.Close()))
	}
}

// TestFailedPut: a file whose content fails is not there, and an earlier one of the name stays.
func TestFailedPut(t *testing.T) {
	d, u := open(t, t.TempDir(), 1)
	defer d.Close()
	defer u.Close()
	failing := func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return io.ErrUnexpectedEOF
	}
	for range 2 {
		err := u.Item("i", nil).Put(t.Context(), "a", &source.Origin{}, failing)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
		for _, f := range u.Files() {
			done(t, d.Verify(t.Context(), f))
		}
		put(t, u, "i", "a", "whole")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err := u.Item("i", nil).Put(ended, "b", &source.Origin{}, func(w io.Writer) error {
		_, err := w.Write([]byte("x"))
		return err
	})
	if !errors.Is(err, context.Canceled) || len(u.Files()) != 1 {
		t.Errorf("got %v, %d files", err, len(u.Files()))
	}
}

// TestPruneAndReset: what the source no longer has is removed, also for later attempts; after Reset every item is
// fetched again.
func TestPruneAndReset(t *testing.T) {
	base := t.TempDir()
	d, u := open(t, base, 1)
	fill(t, u, 3)
	done(t, u.Prune(func(item string) bool { return item != "item-2" }))
	done(t, u.SetPeople([]source.Person{{ID: "19", Name: "Ann"}}))
	done(t, errors.Join(u.Close(), d.Close()))
	d, u = open(t, base, 2)
	if n := len(u.Files()); n != 4 || u.Done("item-2") || !u.Done("item-1") {
		t.Errorf("%d files", n)
	}
	if people, err := u.People(); err != nil || len(people) != 1 || people[0].Name != "Ann" {
		t.Errorf("got %v, %v", people, err)
	}
	done(t, u.Reset())
	done(t, errors.Join(u.Close(), d.Close()))
	d, u = open(t, base, 3)
	if got := fill(t, u, 2); got != 2 {
		t.Errorf("%d items were fetched again", got)
	}
	done(t, errors.Join(u.Close(), d.Close()))
}

// TestOneAttempt: an earlier attempt cannot open the directory after a later one, nor two at once.
func TestOneAttempt(t *testing.T) {
	base := t.TempDir()
	d, err := Open(base, "arc_1", 5)
	done(t, err)
	if _, err := Open(base, "arc_1", 6); !errors.Is(err, dirlock.Err) {
		t.Errorf("two at once: got %v", err)
	}
	done(t, d.Close())
	if _, err := Open(base, "arc_1", 4); job.KindOf(err) != job.Stale {
		t.Errorf("an earlier one: got %v", err)
	}
	d, err = Open(base, "arc_1", 6)
	done(t, err)
	done(t, d.MkdirAll("content/x", 0o750))
	done(t, d.Clear())
	if _, err := d.Stat("content"); err == nil {
		t.Error("Clear left the content")
	}
	done(t, d.Close())
	done(t, Remove(base, "arc_1"))
	done(t, Remove(base, "arc_1"))
}
