package inventory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/format/noid"
	"github.com/stagepost/stagepost/job"
)

func template(t *testing.T) *noid.Template {
	t.Helper()
	x, err := noid.Parse("99999/fk4.zek")
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func name(t *testing.T, i *Inventory, c Claim) Name {
	t.Helper()
	n, err := i.Name(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestNameMintsOncePerJob(t *testing.T) { inEach(t, testNameMintsOncePerJob) }

func testNameMintsOncePerJob(t *testing.T, open opener) {
	i, x := open.new(t), template(t)
	var wg sync.WaitGroup
	got := make([]Name, 8)
	for k := range got {
		wg.Go(func() { got[k], _ = i.Name(t.Context(), Claim{Taker: Taker{Job: "ing_1"}, Owner: "o", Template: x}) })
	}
	wg.Wait()
	for _, n := range got {
		if n.ARK == "" || n.ARK != got[0].ARK || n.Minted != got[0].Minted {
			t.Errorf("got %+v, want all alike", got)
		}
	}
	if other := name(t, i, Claim{Taker: Taker{Job: "ing_2"}, Owner: "o", Template: x}); other.ARK == got[0].ARK {
		t.Errorf("two jobs got %s", other.ARK)
	}
	if _, _, minted, err := i.Counts(t.Context()); err != nil || minted != 2 {
		t.Errorf("got %d minted, %v", minted, err)
	}
}

func TestNameByLocalID(t *testing.T) { inEach(t, testNameByLocalID) }

func testNameByLocalID(t *testing.T, open opener) {
	i, x := open.new(t), template(t)
	first := name(t, i, Claim{Taker: Taker{Job: "a"}, Owner: "o", LocalIDs: []string{"l1", "l2"}, Template: x})
	if again := name(t, i, Claim{Taker: Taker{Job: "b"}, Owner: "o", LocalIDs: []string{"l2", "l3"},
		Template: x}); again.ARK != first.ARK || again.Minted {
		t.Errorf("got %+v, want %s again", again, first.ARK)
	}
	if third := name(t, i, Claim{Taker: Taker{Job: "c"}, Owner: "o", LocalIDs: []string{"l3"},
		Template: x}); third.ARK != first.ARK {
		t.Errorf("l3 became a name of %s; got %s", first.ARK, third.ARK)
	}
	if other := name(t, i, Claim{Taker: Taker{Job: "d"}, Owner: "p", LocalIDs: []string{"l1"},
		Template: x}); other.ARK == first.ARK {
		t.Error("local ids of another owner are other ids")
	}
}

func TestNameConflicts(t *testing.T) { inEach(t, testNameConflicts) }

func testNameConflicts(t *testing.T, open opener) {
	i, x := open.new(t), template(t)
	a := name(t, i, Claim{Taker: Taker{Job: "a"}, Owner: "o", LocalIDs: []string{"l1"}, Template: x})
	name(t, i, Claim{Taker: Taker{Job: "b"}, Owner: "o", LocalIDs: []string{"l2"}, Template: x})
	for what, c := range map[string]Claim{
		"given and local id": {Taker: Taker{Job: "x"}, Owner: "o", Given: "ark:/99999/other",
			LocalIDs: []string{"l1"}},
		"two local ids":       {Taker: Taker{Job: "x"}, Owner: "o", LocalIDs: []string{"l1", "l2"}},
		"somebody else's ark": {Taker: Taker{Job: "x"}, Owner: "p", Given: a.ARK},
		"new id and old, ark ": {Taker: Taker{Job: "x"}, Owner: "o", Given: "ark:/99999/new",
			LocalIDs: []string{"l9", "l2"}},
	} {
		if _, err := i.Name(t.Context(), c); !errors.Is(err, ErrConflict) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if n := name(t, i, Claim{Taker: Taker{Job: "x"}, Owner: "o", Given: a.ARK,
		LocalIDs: []string{"l1"}}); n.ARK != a.ARK {
		t.Errorf("control: got %+v", n)
	}
}

func TestMintPassesNamesInUse(t *testing.T) { inEach(t, testMintPassesNamesInUse) }

func testMintPassesNamesInUse(t *testing.T, open opener) {
	i, x := open.new(t), template(t)
	first, err := x.Mint(0)
	if err != nil {
		t.Fatal(err)
	}
	name(t, i, Claim{Taker: Taker{Job: "a"}, Owner: "o", Given: "ark:/" + first})
	if n := name(t, i, Claim{Taker: Taker{Job: "b"}, Owner: "o", Template: x}); n.ARK == "ark:/"+first {
		t.Errorf("%s was given away twice", n.ARK)
	}
}

func TestOutsideMinterReservesLocalIDs(t *testing.T) { inEach(t, testOutsideMinterReservesLocalIDs) }

func testOutsideMinterReservesLocalIDs(t *testing.T, open opener) {
	i := open.new(t)
	a := Claim{Taker: Taker{Job: "a"}, Owner: "o", LocalIDs: []string{"l1"}}
	b := Claim{Taker: Taker{Job: "b"}, Owner: "o", LocalIDs: []string{"l1"}}
	of := name(t, i, a)
	if of.ARK != "" || len(of.Locks) != 1 || of.Locks[0].Name != "o/l1" {
		t.Errorf("got %+v", of)
	}
	var held *HeldError
	if _, err := i.Name(t.Context(), b); !errors.As(err, &held) || held.Lock.Job != "a" {
		t.Errorf("b must wait for a; got %v", err)
	}
	if _, err := i.Settle(t.Context(), a, of.Locks, "ark:/99999/x1"); err != nil {
		t.Fatal(err)
	}
	if n, err := i.Settle(t.Context(), a, of.Locks, "ark:/99999/x2"); err != nil || n.ARK != "ark:/99999/x1" {
		t.Errorf("a second answer changes nothing; got %+v, %v", n, err)
	}
	if n := name(t, i, b); n.ARK != "ark:/99999/x1" {
		t.Errorf("got %+v", n)
	}
}

// TestSettleUnderALostLock lets another job take the local id over while the first one's minter thinks.
func TestSettleUnderALostLock(t *testing.T) { inEach(t, testSettleUnderALostLock) }

func testSettleUnderALostLock(t *testing.T, open opener) {
	i := open.new(t)
	a := Claim{Taker: Taker{Job: "a"}, Owner: "o", LocalIDs: []string{"l1"}}
	late := name(t, i, a)
	b := a
	b.Taker = Taker{Job: "b", Over: []int64{late.Locks[0].Token}}
	of := name(t, i, b)
	if _, err := i.Settle(t.Context(), a, late.Locks, "ark:/99999/xa"); !errors.Is(err, ErrStale) ||
		job.KindOf(err) != job.Stale {
		t.Errorf("got %v", err)
	}
	if n, err := i.Settle(t.Context(), b, of.Locks, "ark:/99999/xb"); err != nil || n.ARK != "ark:/99999/xb" {
		t.Errorf("got %+v, %v", n, err)
	}
	if n := name(t, i, a); n.ARK != "ark:/99999/xb" || n.Minted {
		t.Errorf("a is about b's object now; got %+v", n)
	}
	if left, err := i.Locks(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v", left, err)
	}
}

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func entry(ark, job string, version int) Entry {
	return Entry{
		Object: Object{ARK: ark, Owner: "o", Collection: "maps", Profile: "maps", Title: "Title " +
			job, LocalIDs: []string{"l-" + ark}},
		Job: job, Batch: "bat_1", Submitter: "ann", Version: version, At: at,
		Places: []Place{{Dir: "storage", Name: fmt.Sprintf("v%d", version)}},
	}
}

func files(n int, fail error) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for k := range n {
			f := File{Path: fmt.Sprintf("producer/%03d", k), Size: int64(k), SHA256: strings.Repeat("a", 61) +
				fmt.Sprintf("%03d", k),
				SHA512: strings.Repeat("b", 125) + fmt.Sprintf("%03d", k), MIME: "text/plain"}
			if !yield(f, nil) {
				return
			}
		}
		if fail != nil {
			yield(File{}, fail)
		}
	}
}

func TestRecordAndQuery(t *testing.T) { inEach(t, testRecordAndQuery) }

func testRecordAndQuery(t *testing.T, open opener) {
	i := open.new(t)
	for _, e := range []Entry{entry("ark:/1/a", "j1", 1), entry("ark:/1/a", "j2", 2), entry("ark:/1/b", "j3", 1),
		entry("ark:/1/a", "j1", 1)} {
		if err := i.Record(t.Context(), e, files(3, nil)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := i.Objects(t.Context(), Query{})
	if err != nil || len(all) != 2 {
		t.Fatalf("got %d objects, %v", len(all), err)
	}
	a := all[0]
	if a.Head != 2 || a.Title != "Title j2" || len(a.Versions) != 2 || a.Versions[1].Files != 3 ||
		a.Versions[1].Bytes != 3 {
		t.Errorf("got %+v", a)
	}
	if diff := cmp.Diff([]Place{{Dir: "storage", Name: "v2"}}, a.Versions[1].Places); diff != "" {
		t.Error(diff)
	}
	for what, c := range map[string]struct {
		q    Query
		want int
	}{
		"ark":      {Query{ARK: "ark:/1/b"}, 1},
		"local id": {Query{LocalID: "l-ark:/1/a"}, 1},
		"sha256":   {Query{Digest: strings.Repeat("A", 61) + "002"}, 2},
		"sha512":   {Query{Digest: strings.Repeat("b", 125) + "001"}, 2},
		"md5":      {Query{Digest: strings.Repeat("b", 32)}, 0},
		"after":    {Query{After: "ark:/1/a"}, 1},
		"limit":    {Query{Limit: 1}, 1},
		"owner":    {Query{Owner: "p"}, 0},
	} {
		if got, err := i.Objects(t.Context(), c.q); err != nil || len(got) != c.want {
			t.Errorf("%s: got %d, %v; want %d", what, len(got), err, c.want)
		}
	}
	got, err := i.Files(t.Context(), "ark:/1/a", 0, "producer/000", 1)
	if err != nil || len(got) != 1 || got[0].Path != "producer/001" {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := i.Files(t.Context(), "ark:/1/zzz", 0, "", 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestRecordIsAllOrNothing(t *testing.T) { inEach(t, testRecordIsAllOrNothing) }

func testRecordIsAllOrNothing(t *testing.T, open opener) {
	i := open.new(t)
	broken := errors.New("the list is damaged")
	if err := i.Record(t.Context(), entry("ark:/1/a", "j1", 1), files(5, broken)); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	if objects, versions, _, err := i.Counts(t.Context()); err != nil || objects != 0 || versions != 0 {
		t.Errorf("got %d objects and %d versions, %v", objects, versions, err)
	}
}

func TestReopen(t *testing.T) { inEach(t, testReopen) }

func testReopen(t *testing.T, open opener) {
	at := open.target(t)
	for range 2 {
		i, err := at("")
		if err != nil {
			t.Fatal(err)
		}
		if n := name(t, i, Claim{Taker: Taker{Job: "a"}, Owner: "o", Template: template(t)}); n.ARK == "" {
			t.Error("no ark")
		}
		if _, _, minted, err := i.Counts(t.Context()); err != nil || minted != 1 {
			t.Errorf("got %d, %v", minted, err)
		}
		if err := i.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A name that storage has is passed over permanently, also when two jobs ask for names at once; without a template or a
// new name storage is not asked.
func TestNamePassesWhatIsStored(t *testing.T) { inEach(t, testNamePassesWhatIsStored) }

func testNamePassesWhatIsStored(t *testing.T, open opener) {
	i, x := open.new(t), template(t)
	var all []string
	for n := range uint64(6) {
		ark, err := x.Mint(n)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, "ark:/"+ark)
	}
	var asked []string
	stored := func(_ context.Context, ark string) (bool, error) {
		asked = append(asked, ark)
		if ark == all[1] { // another job gets the next names meanwhile
			name(t, i, Claim{Taker: Taker{Job: "between"}, Owner: "o", Template: x})
		}
		if ark == all[3] { // and this very one
			name(t, i, Claim{Taker: Taker{Job: "given"}, Owner: "o", Given: ark})
		}
		return ark == all[0] || ark == all[1], nil
	}
	if n := name(t, i, Claim{Taker: Taker{Job: "a"}, Owner: "o", LocalIDs: []string{"l"}, Template: x,
		Stored: stored}); n.ARK != all[4] || !n.Minted {
		t.Errorf("got %+v, want %s", n, all[4])
	}
	if diff := cmp.Diff([]string{all[0], all[1], all[3], all[4]}, asked); diff != "" {
		t.Error(diff)
	}
	asked = nil
	for _, c := range []Claim{
		{Taker: Taker{Job: "a"}, Owner: "o", Template: x, Stored: stored}, {Taker: Taker{Job: "b"}, Owner: "o",
			LocalIDs: []string{"l"}, Template: x, Stored: stored},
		{Taker: Taker{Job: "c"}, Owner: "o", Given: "ark:/1/x", Template: x, Stored: stored}, {Taker: Taker{Job: "d"},
			Owner: "o", Stored: stored},
	} {
		if name(t, i, c); len(asked) > 0 {
			t.Errorf("%s: storage was asked for %v", c.Job, asked)
		}
	}
	broken := errors.New("storage cannot be read")
	fails := func(context.Context, string) (bool, error) { return false, broken }
	if _, err := i.Name(t.Context(),
		Claim{Taker: Taker{Job: "e"}, Owner: "o", Template: x, Stored: fails}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	c := Claim{Taker: Taker{Job: "f"}, Owner: "o",
		Stored: func(context.Context, string) (bool, error) { return true, nil }}
	if _, err := i.Settle(t.Context(), c, nil, "ark:/1/outside"); !errors.Is(err, ErrConflict) {
		t.Errorf("got %v", err)
	}
}

// The file belongs to one installation, and a file without one gets it.
func TestInstallation(t *testing.T) { inEach(t, testInstallation) }

func testInstallation(t *testing.T, open opener) {
	at, foreign := open.target(t), open.foreign
	for _, step := range []struct {
		want, got string
		err       error
	}{{"one", "one", nil}, {"", "one", nil}, {"two", "", foreign}, {"one", "one", nil}} {
		i, err := at(step.want)
		if !errors.Is(err, step.err) {
			t.Fatalf("%q: got %v", step.want, err)
		}
		if err != nil {
			continue
		}
		if i.Installation() != step.got {
			t.Errorf("got %q, want %q", i.Installation(), step.got)
		}
		if err := i.Close(); err != nil {
			t.Fatal(err)
		}
	}
	a, b := open.new(t), open.new(t)
	if a.Installation() == b.Installation() || a.Installation() == "" {
		t.Errorf("got %q and %q", a.Installation(), b.Installation())
	}
}
