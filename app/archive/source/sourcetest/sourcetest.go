// Package sourcetest is the contract of [source.Source] as tests. Each source passes them.
package sourcetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stagepost/stagepost/app/archive/source"
)

// Fixture is a source with an activity that is archived.
type Fixture struct {
	Source   source.Source
	Course   string
	Activity string // id; empty: the first one of the course
	// Change changes the content of the activity. Other changes something that is no content of it, and may be nil.
	Change, Other func(t testing.TB)
	// Break makes the n-th read from now on fail halfway (n counts from 1), and those after it succeed. Reads are
	// requests, or reads of files. reached reports whether there was such a read, and ends the fault.
	Break func(n int) (reached func() bool)
}

// Run runs the tests. open makes a new fixture with the same content at each call.
func Run(t *testing.T, open func(t testing.TB) Fixture) {
	t.Run("stable", func(t *testing.T) { stable(t, open) })
	t.Run("fingerprint", func(t *testing.T) { fingerprint(t, open) })
	t.Run("broken reads", func(t *testing.T) { brokenReads(t, open) })
	t.Run("broken writes", func(t *testing.T) { brokenWrites(t, open) })
	t.Run("cancelled", func(t *testing.T) { cancelled(t, open) })
	t.Run("wrong kind", func(t *testing.T) { wrongKind(t, open) })
}

// Out keeps files in memory. The zero Out is ready.
type Out struct {
	// FailAt makes the n-th Write to a file fail; 0 is none.
	FailAt int

	mu      sync.Mutex
	writes  int
	order   []string
	bodies  map[string]string
	origins map[string]source.Origin
}

// ErrWrite is the error of a write that was made to fail.
var ErrWrite = errors.New("planned failure of a write")

// Put implements [source.Out].
func (o *Out) Put(_ context.Context, name string, origin *source.Origin, fill func(io.Writer) error) error {
	var body bytes.Buffer
	if err := fill(writer{o, &body}); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bodies == nil {
		o.bodies, o.origins = map[string]string{}, map[string]source.Origin{}
	}
	o.order = append(o.order, name)
	o.bodies[name], o.origins[name] = body.String(), *origin
	return nil
}

// Progress implements [source.Out].
func (o *Out) Progress(int64, int64, string) {}

// Names gives the names of the files, sorted.
func (o *Out) Names() []string { return slices.Sorted(maps.Keys(o.bodies)) }

// Body gives the content of a file, which is empty if there is none.
func (o *Out) Body(name string) string { return o.bodies[name] }

// Origin gives the origin of a file.
func (o *Out) Origin(name string) source.Origin { return o.origins[name] }

type writer struct {
	o  *Out
	to *bytes.Buffer
}

func (w writer) Write(p []byte) (int, error) {
	w.o.mu.Lock()
	defer w.o.mu.Unlock()
	if w.o.writes++; w.o.writes == w.o.FailAt {
		n, _ := w.to.Write(p[:len(p)/2])
		return n, ErrWrite
	}
	return w.to.Write(p)
}

// activity gives the activity of a fixture.
func (f Fixture) activity(t testing.TB) source.Activity {
	t.Helper()
	list, err := f.Source.Activities(t.Context(), f.Course)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if f.Activity == "" || a.ID == f.Activity {
			return a
		}
	}
	t.Fatalf("%q has no activity %q", f.Course, f.Activity)
	return source.Activity{}
}

// plan makes the plan of an activity, and passes it through JSON as a job does that saves it.
func plan(ctx context.Context, s source.Source, a source.Activity) (*source.Plan, error) {
	p, err := s.Plan(ctx, a, source.Settings{})
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	p = &source.Plan{}
	return p, json.Unmarshal(text, p)
}

// Archive plans and fetches all items of an activity.
func Archive(ctx context.Context, s source.Source, a source.Activity, out source.Out) (*source.Plan, error) {
	p, err := plan(ctx, s, a)
	if err != nil {
		return nil, err
	}
	for _, item := range p.Items {
		if err := s.Fetch(ctx, a, item, source.Settings{}, out); err != nil {
			return nil, fmt.Errorf("item %s: %w", item.Key, err)
		}
	}
	return p, nil
}

// control archives the activity of a new fixture without a fault.
func control(t testing.TB, open func(t testing.TB) Fixture) (*source.Plan, *Out) {
	t.Helper()
	f, out := open(t), &Out{}
	p, err := Archive(t.Context(), f.Source, f.activity(t), out)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.bodies) == 0 {
		t.Fatal("the fixture has no files")
	}
	return p, out
}

// stable: twice the same plan and the same files in the same order; keys and names are unique and safe.
func stable(t *testing.T, open func(t testing.TB) Fixture) {
	p, out := control(t, open)
	again, second := control(t, open)
	if got, want := keys(again), keys(p); !slices.Equal(got, want) {
		t.Errorf("got %q, then %q", want, got)
	}
	if !slices.Equal(out.order, second.order) {
		t.Errorf("got files %q, then %q", out.order, second.order)
	}
	checkKeys(t, p)
	seen := map[string]bool{}
	for _, name := range out.order {
		if seen[strings.ToLower(name)] {
			t.Errorf("%q is written twice", name)
		}
		seen[strings.ToLower(name)] = true
		if name != path.Clean(name) || path.IsAbs(name) || strings.HasPrefix(name, "..") {
			t.Errorf("%q is not a path below a directory", name)
		}
		for part := range strings.SplitSeq(name, "/") {
			if part != source.SafeName(part) {
				t.Errorf("%q has the unsafe element %q", name, part)
			}
		}
	}
	f := open(t)
	facts, err := f.Source.Check(t.Context())
	if err != nil || facts.Kind == "" || facts.Name == "" {
		t.Errorf("facts %+v, %v", facts, err)
	}
	courses, err := f.Source.Courses(t.Context(), []string{f.Course})
	if err != nil || len(courses) != 1 || courses[0].ID != f.Course || courses[0].Name == "" {
		t.Errorf("courses %+v, %v", courses, err)
	}
	if _, err := f.Source.Courses(t.Context(), []string{"999999"}); err == nil || temporary(err) {
		t.Errorf("a missing course: %v", err)
	}
}

func keys(p *source.Plan) (all []string) {
	for _, item := range p.Items {
		all = append(all, item.Key)
	}
	return all
}

func checkKeys(t *testing.T, p *source.Plan) {
	t.Helper()
	seen := map[string]bool{}
	people := map[string]bool{"": true}
	for _, one := range p.People {
		people[one.ID] = true
	}
	for _, item := range p.Items {
		if item.Key == "" || seen[item.Key] || !utf8.ValidString(item.Key) {
			t.Errorf("the key %q is empty, not unique or not UTF-8", item.Key)
		}
		seen[item.Key] = true
		if !people[item.Person] {
			t.Errorf("%s is of %q, who is not among the people", item.Key, item.Person)
		}
	}
}

// fingerprint: it is stable, and changes with the content only.
func fingerprint(t *testing.T, open func(t testing.TB) Fixture) {
	f := open(t)
	a := f.activity(t)
	take := func() string {
		sum, err := f.Source.Fingerprint(t.Context(), a)
		if err != nil || len(sum) != 64 || strings.Trim(sum, "0123456789abcdef") != "" {
			t.Fatalf("got %q, %v", sum, err)
		}
		return sum
	}
	before := take()
	if _, err := Archive(t.Context(), f.Source, a, &Out{}); err != nil {
		t.Fatal(err)
	}
	if after := take(); after != before {
		t.Error("it changed when the activity was archived")
	}
	if f.Other != nil {
		f.Other(t)
		if after := take(); after != before {
			t.Error("it changed with something that is no content")
		}
	}
	f.Change(t)
	if after := take(); after == before {
		t.Error("it did not change with the content")
	}
}

// temporary reports whether a later attempt can succeed after an error.
func temporary(err error) bool {
	var e *source.Error
	return errors.As(err, &e) && e.Temporary()
}

// brokenReads: after a failure of each read, no wrong file is kept, and a repetition gives all files.
func brokenReads(t *testing.T, open func(t testing.TB) Fixture) {
	_, want := control(t, open)
	f := open(t)
	a := f.activity(t)
	for n := 1; ; n++ {
		out := &Out{}
		reached := f.Break(n)
		_, err := Archive(t.Context(), f.Source, a, out)
		if !reached() {
			if n == 1 {
				t.Error("no read was broken")
			}
			return
		}
		if err != nil && !temporary(err) {
			t.Errorf("read %d: %v is not temporary", n, err)
		}
		right(t, fmt.Sprintf("after read %d", n), out, want, err == nil)
		if _, err := Archive(t.Context(), f.Source, a, out); err != nil {
			t.Errorf("repeated after read %d: %v", n, err)
		}
		right(t, fmt.Sprintf("repeated after read %d", n), out, want, true)
	}
}

// brokenWrites: the error of a failed write is returned, and a repetition gives all files.
func brokenWrites(t *testing.T, open func(t testing.TB) Fixture) {
	_, want := control(t, open)
	f := open(t)
	a := f.activity(t)
	for n := 1; ; n++ {
		out := &Out{FailAt: n}
		_, err := Archive(t.Context(), f.Source, a, out)
		if out.writes < n {
			if err != nil || n == 1 {
				t.Errorf("%d writes: %v", out.writes, err)
			}
			return
		}
		if !errors.Is(err, ErrWrite) {
			t.Errorf("write %d: got %v", n, err)
		}
		right(t, fmt.Sprintf("after write %d", n), out, want, false)
		if _, err := Archive(t.Context(), f.Source, a, out); err != nil {
			t.Errorf("repeated after write %d: %v", n, err)
		}
		right(t, fmt.Sprintf("repeated after write %d", n), out, want, true)
	}
}

// right: each file is as in the control, and if all is set none is missing.
func right(t *testing.T, when string, got, want *Out, all bool) {
	t.Helper()
	for name, body := range got.bodies {
		if other, ok := want.bodies[name]; !ok || other != body {
			t.Errorf("%s: %s has wrong content (%d bytes)", when, name, len(body))
		}
	}
	if all && len(got.bodies) != len(want.bodies) {
		t.Errorf("%s: got files %q, want %q", when, got.Names(), want.Names())
	}
}

func cancelled(t *testing.T, open func(t testing.TB) Fixture) {
	f := open(t)
	a := f.activity(t)
	p, err := plan(t.Context(), f.Source, a)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Source.Plan(ctx, a, source.Settings{}); !errors.Is(err, context.Canceled) {
		t.Errorf("plan: got %v", err)
	}
	if _, err := f.Source.Fingerprint(ctx, a); !errors.Is(err, context.Canceled) {
		t.Errorf("fingerprint: got %v", err)
	}
	for _, item := range p.Items {
		out := &Out{}
		err := f.Source.Fetch(ctx, a, item, source.Settings{}, out)
		if !errors.Is(err, context.Canceled) || len(out.bodies) != 0 {
			t.Errorf("%s: got %v and %q", item.Key, err, out.Names())
		}
	}
}

func wrongKind(t *testing.T, open func(t testing.TB) Fixture) {
	f := open(t)
	a := f.activity(t)
	if reason := f.Source.Archivable(a); reason != "" {
		t.Errorf("got %q", reason)
	}
	a.Module = "of another source"
	if f.Source.Archivable(a) == "" {
		t.Errorf("%q is archivable", a.Module)
	}
	for what, err := range map[string]error{
		"plan":        second(f.Source.Plan(t.Context(), a, source.Settings{})),
		"fingerprint": second(f.Source.Fingerprint(t.Context(), a)),
		"fetch":       f.Source.Fetch(t.Context(), a, source.Item{Key: "x"}, source.Settings{}, &Out{}),
	} {
		if err == nil || temporary(err) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
