package ocfl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// job selects the versions with a key.
func job(keys ...string) func(string, *VersionBlock) bool {
	return func(_ string, v *VersionBlock) bool { return slices.Contains(keys, v.Key()) }
}

// history are the files of three versions, by key: "shared" is in all, "moved" has another name in each, and the
// content of "again" comes back.
var history = map[string][]File{
	"one": {text("shared", "S"), text("secret-of-one", "1"), text("moved/1", "M"), text("again", "A"),
		text("same", "a")},
	"two": {text("shared", "S"), text("only/two", "2"), text("moved/2", "M"), text("same", "b")},
	"three": {text("shared", "S"), text("only-three", "3"), text("moved/3", "M"), text("again", "A"),
		text("copy-of-one", "a"), text("copy:of:two", "b")},
}

// three makes a storage root with an object of three versions.
func three(t *testing.T) (r *Root, dir string) {
	t.Helper()
	dir = memoryDir(t)
	r, err := InitRoot(dir, Layout{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	r.ops = quiet(r, dir)
	for _, key := range []string{"one", "two", "three"} {
		v := version(key, history[key]...)
		v.User = User{Name: "Ann of " + key, Address: "mailto:ann@example.org"}
		add(t, r, testID, v, Options{Stage: "earlier", Key: key, Fixity: []string{SHA256}})
	}
	return r, dir
}

// has requires that the object has the versions of these jobs, and nothing else is in the storage root.
func has(t *testing.T, r *Root, keys ...string) error {
	t.Helper()
	report, err := Validate(t.Context(), r.dir.Name())
	if err != nil {
		return err
	}
	for _, p := range append(report.Errors, report.Warnings...) {
		if p.Code != "W016" { // a stage, which other checks are about
			return fmt.Errorf("%s", p)
		}
	}
	o, err := r.Object(testID)
	if len(keys) == 0 {
		if !errors.Is(err, ErrNotFound) {
			return fmt.Errorf("the object is there: %w", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if len(o.Versions()) != len(keys) {
		return fmt.Errorf("versions %q, want %q", o.Versions(), keys)
	}
	stored := 0
	for i, key := range keys {
		name := fmt.Sprintf("v%d", i+1)
		block := o.Inventory().Versions[name]
		if block.Key() != key || block.Text() != key || block.User.Name != "Ann of "+key || block.Created == "" {
			return fmt.Errorf("%s is %+v", name, block)
		}
		files, err := o.Files(name)
		if err != nil || len(files) != len(history[key]) {
			return fmt.Errorf("%s: %d files, %w", name, len(files), err)
		}
		for _, f := range history[key] {
			want, _ := f.Open()
			got, err := o.Open(name, f.Path)
			if err != nil {
				return err
			}
			a, _ := io.ReadAll(want)
			b, _ := io.ReadAll(got)
			got.Close()
			if string(a) != string(b) {
				return fmt.Errorf("%s %s is %q", name, f.Path, b)
			}
		}
		if _, err := r.VerifyVersion(t.Context(), testID, name); err != nil {
			return err
		}
		checked, err := o.CheckVersion(t.Context(), name, noPace, func(f FileFault) { stored = -1000 })
		if err != nil {
			return err
		}
		stored += checked.Files
	}
	if stored < 0 {
		return errors.New("the fixity check has a fault")
	}
	return nil
}

// bytesOf lists the contents and names of all files below a directory.
func bytesOf(t *testing.T, dir string) (all string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		all += p + "\x00" + string(data) + "\x00"
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// removals are which jobs are removed, and which remain.
var removals = []struct{ gone, left []string }{
	{[]string{"one"}, []string{"two", "three"}},
	{[]string{"two"}, []string{"one", "three"}},
	{[]string{"three"}, []string{"one", "two"}},
	{[]string{"one", "two"}, []string{"three"}},
	{[]string{"one", "two", "three"}, nil},
	{[]string{"none"}, []string{"one", "two", "three"}},
}

// TestRemoveVersions: the other versions stay as they are, with new numbers. Nothing of a removed one is on disk.
func TestRemoveVersions(t *testing.T) {
	for _, c := range removals {
		r, dir := three(t)
		for round := range 2 { // a repetition changes nothing
			done, err := r.RemoveVersions(t.Context(), testID, "rm", job(c.gone...), nil)
			if err != nil {
				t.Fatalf("%q: %v", c.gone, err)
			}
			if want := len(history) - len(c.left); round == 0 && (len(done.Removed) != want ||
				done.Object != (len(c.left) == 0)) || round == 1 && len(done.Removed) > 0 {
				t.Errorf("%q, round %d: got %+v", c.gone, round, done)
			}
			if err := has(t, r, c.left...); err != nil {
				t.Errorf("%q, round %d: %v", c.gone, round, err)
			}
		}
		if slices.Contains(c.gone, "one") && strings.Contains(bytesOf(t, dir), "secret-of-one") {
			t.Errorf("%q: a file of it is left", c.gone)
		}
		if slices.Contains(c.left, "three") { // the key still makes a repetition harmless
			v := version("three", history["three"]...)
			added := add(t, r, testID, v, Options{Stage: "again", Key: "three"})
			if added.Created || added.Version != fmt.Sprintf("v%d", len(c.left)) {
				t.Errorf("%q: the repetition gave %+v", c.gone, added)
			}
		}
		if left, err := r.Stages(); err != nil || len(left) > 0 {
			t.Errorf("stages %q, %v", left, err)
		}
	}
}

// TestRemoveControl: the checks of these tests notice a name and content that remain.
func TestRemoveControl(t *testing.T) {
	r, dir := three(t)
	if !strings.Contains(bytesOf(t, dir), "secret-of-one") {
		t.Error("the name is not noticed")
	}
	if has(t, r, "two", "three") == nil || has(t, r) == nil {
		t.Error("the version is not noticed")
	}
	home := filepath.Join(dir, r.Path(testID))
	if err := os.WriteFile(filepath.Join(home, "v1/content/shared"), []byte("X"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.RemoveVersions(t.Context(), testID, "rm", job("two"), nil); !errors.Is(err, ErrDigest) {
		t.Errorf("content that remains is damaged: got %v", err)
	}
	if o, err := r.Object(testID); err != nil || o.Head() != "v3" {
		t.Errorf("the object was changed: %v", err)
	}
	if _, err := r.RemoveVersions(t.Context(), testID, "rm", job("one", "two", "three"), nil); err != nil {
		t.Errorf("nothing remains: %v", err)
	}
}

// TestRemoveObject also removes an object that is damaged, and no other object.
func TestRemoveObject(t *testing.T) {
	r, dir := three(t)
	add(t, r, "urn:other", version("other", text("a", "A")), Options{})
	if err := os.Truncate(filepath.Join(dir, r.Path(testID), inventoryFile), 3); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.RemoveObject(t.Context(), testID, "rm"); err != nil {
			t.Fatal(err)
		}
		if err := has(t, r); err != nil {
			t.Error(err)
		}
	}
	if _, err := r.VerifyVersion(t.Context(), "urn:other", ""); err != nil {
		t.Error(err)
	}
}

// crashRemoving stops a removal at an operation. It gives what is wrong at once after the crash, or after the same call
// again.
func crashRemoving(t *testing.T, c int, stop int, kind crashKind, loss powerLoss, again bool,
	prepare func(*crashOps)) (*crashOps, error) {
	t.Helper()
	gone, left := removals[c].gone, removals[c].left
	r, dir := three(t)
	w := quiet(r, dir)
	w.stop, w.kind = stop, kind
	if prepare != nil {
		prepare(w)
	}
	r.ops = w
	_, err := r.RemoveVersions(t.Context(), testID, "rm", job(gone...), nil)
	if !w.dead && err != nil {
		return w, err
	}
	w.lose(t, loss)
	r.ops = quiet(r, dir)
	old, fresh := hasVersions(t, r, "one", "two", "three"), hasVersions(t, r, left...)
	if old != nil && fresh != nil {
		return w, fmt.Errorf("neither the old object (%w) nor the new one (%w)", old, fresh)
	}
	if !w.dead && fresh != nil {
		return w, fmt.Errorf("it was confirmed, but: %w", fresh)
	}
	if !again {
		if _, err := r.Sweep(); err != nil {
			return w, err
		}
		if old == nil {
			left = []string{"one", "two", "three"}
		}
		return w, has(t, r, left...)
	}
	if _, err := r.RemoveVersions(t.Context(), testID, "rm", job(gone...), nil); err != nil {
		return w, fmt.Errorf("again: %w", err)
	}
	if left, err := r.Stages(); err != nil || len(left) > 0 {
		return w, fmt.Errorf("stages %q, %w", left, err)
	}
	if err := has(t, r, left...); err != nil {
		return w, err
	}
	if slices.Contains(gone, "one") && strings.Contains(bytesOf(t, dir), "secret-of-one") {
		return w, errors.New("a file of it is left")
	}
	return w, nil
}

// hasVersions is as has, without the empty directories above a removed object, which are allowed after a crash.
func hasVersions(t *testing.T, r *Root, keys ...string) error {
	t.Helper()
	if len(keys) > 0 {
		return has(t, r, keys...)
	}
	if _, err := r.Object(testID); !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("the object is there: %w", err)
	}
	return nil
}

// TestCrashWhileRemoving: whatever crash or power cut, the object is the old one or the new one, and the same call or
// Sweep ends with nothing else.
func TestCrashWhileRemoving(t *testing.T) {
	for _, c := range []int{1, 4} {
		whole, err := crashRemoving(t, c, 0, crashBefore, powerStays, true, nil)
		if err != nil {
			t.Fatal(err)
		}
		runs := 0
		for stop := 1; stop <= len(whole.ops); stop++ {
			for _, kind := range []crashKind{crashBefore, crashAfter, crashTorn} {
				if kind == crashTorn && !strings.HasPrefix(whole.ops[stop-1], "write") {
					continue
				}
				for _, loss := range []powerLoss{powerStays, losesUnsynced, losesOldestMove} {
					if kind == crashBefore && loss != powerStays {
						continue
					}
					if _, err := crashRemoving(t, c, stop, kind, loss, stop%2 == 0, nil); err != nil {
						t.Errorf("%q, crash %d at %q (%d/%d): %v", removals[c].gone, kind, whole.ops[stop-1], stop,
							loss, err)
					}
					runs++
				}
			}
		}
		if runs < 40 {
			t.Errorf("only %d runs", runs)
		}
	}
}

// TestCrashWhileRemovingControls: the enumeration notices syncs that are left out.
func TestCrashWhileRemovingControls(t *testing.T) {
	for name, prepare := range map[string]func(*crashOps){
		"files":       func(w *crashOps) { w.ignoreSync = true },
		"directories": func(w *crashOps) { w.ignoreSyncDir = true },
	} {
		whole, err := crashRemoving(t, 1, 0, crashBefore, losesUnsynced, true, prepare)
		for stop := len(whole.ops); stop > 0 && err == nil; stop-- {
			_, err = crashRemoving(t, 1, stop, crashAfter, losesUnsynced, true, prepare)
		}
		if err == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}

// TestRemoveWhileAdding: writers and removals at once end with the versions of the writers.
func TestRemoveWhileAdding(t *testing.T) {
	r, _ := three(t)
	r.ops = diskOps{r.dir}
	done := make(chan error, 1)
	go func() {
		for i := range 10 {
			for {
				key := fmt.Sprintf("more-%d", i)
				_, err := r.AddVersion(t.Context(), testID, version(key, text("f", key)), Options{Stage: "w", Key: key})
				if err == nil {
					break
				}
				if !errors.Is(err, ErrConflict) {
					done <- err
					return
				}
			}
		}
		done <- nil
	}()
	for _, key := range []string{"one", "two", "three"} {
		for {
			_, err := r.RemoveVersions(t.Context(), testID, "rm", job(key), nil)
			if err == nil {
				break
			}
			if !errors.Is(err, ErrConflict) {
				t.Fatal(err)
			}
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	o, err := r.Object(testID)
	if err != nil || len(o.Versions()) != 10 {
		t.Fatalf("got %v, %v", o, err)
	}
	if report, err := Validate(t.Context(), r.dir.Name()); err != nil || !report.Valid() {
		t.Errorf("got %v, %v", report, err)
	}
}

func noPace(ctx context.Context, _ int) error { return ctx.Err() }
