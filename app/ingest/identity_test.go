package ingest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

const crowd = 50

// together lets a crowd bring one new local id at once, and gives the ARKs that their objects got.
func together(t *testing.T, p profile.Profile, change func(*App)) (w *harness, arks map[string]int) {
	t.Helper()
	pass := func(context.Context, *engine.Run) error { return nil } // what comes after Processing does not matter
	w = begin(t, options(t, t.TempDir(), p), clock.System(), change,
		map[lifecycle.State]engine.Step{record.Storing: pass, record.Recording: pass})
	batches := make([]job.ID, crowd)
	var all sync.WaitGroup
	for i := range batches {
		all.Go(func() {
			s := Submission{Profile: "test", Submitter: "ann", LocalIDs: []string{"l1"}, Filename: "f.txt"}
			b, err := w.Submit(t.Context(), s, strings.NewReader("text"))
			if err != nil {
				t.Error(err)
			}
			batches[i] = b.ID
		})
	}
	all.Wait()
	arks = map[string]int{}
	for _, b := range batches {
		r := w.reported(w.end(b).ID)
		if r.State != record.Completed {
			t.Fatalf("got %s", r.Text())
		}
		arks[r.Jobs[0].ARK]++
	}
	w.awaitLocks("in the end", none)
	return w, arks
}

func TestCrowdWithOneLocalIDMintsOnce(t *testing.T) {
	w, arks := together(t, testProfile(), nil)
	if _, _, minted, err := w.inventory.Counts(t.Context()); err != nil || minted != 1 || len(arks) != 1 {
		t.Errorf("got %d identifiers, %v, %v", minted, arks, err)
	}
}

func TestCrowdAtAnOutsideMinterMintsOnce(t *testing.T) {
	m := &minter{}
	w, arks := together(t, newMinter(t, m), nil)
	if _, _, minted, err := w.inventory.Counts(t.Context()); err != nil || minted != 1 || len(arks) != 1 {
		t.Errorf("got %d identifiers, %v, %v", minted, arks, err)
	}
	if m.calls != 1 || len(m.minted) != 1 {
		t.Errorf("the minter was asked %d times and made %d", m.calls, len(m.minted))
	}
}

// unreserved reads local ids but does not lock them, and waits until many have read them: the result of a lookup
// without a lock.
type unreserved struct {
	locker
	looked sync.WaitGroup
}

func (u *unreserved) Name(_ context.Context, c inventory.Claim) (inventory.Name, error) {
	u.looked.Done() // no job has settled anything yet: it is a new local id to all of them
	u.looked.Wait()
	return inventory.Name{}, nil
}

func (u *unreserved) Settle(ctx context.Context, c inventory.Claim, _ []inventory.Lock, ark string) (inventory.Name,
	error) {
	return u.locker.Settle(ctx, c, nil, ark)
}

// TestCrowdWithoutTheLock is the control.
func TestCrowdWithoutTheLock(t *testing.T) {
	m := &minter{}
	w, arks := together(t, newMinter(t, m), func(a *App) {
		u := &unreserved{locker: a.locks}
		u.looked.Add(crowd)
		a.locks = u
	})
	if _, _, minted, err := w.inventory.Counts(t.Context()); err != nil || minted < 2 || len(arks) < 2 ||
		len(m.minted) < 2 {
		t.Errorf("got only %d identifiers, %v", minted, err)
	}
}

// TestDeathBetweenMintAndSettle kills the process after the minter answered and before the answer is kept, and again
// after it was kept.
func TestDeathBetweenMintAndSettle(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%t", after), func(t *testing.T) {
			t.Parallel()
			m := &minter{}
			r := newRace(t, nil)
			r.o = options(t, t.TempDir(), newMinter(t, m))
			sub := Submission{Profile: "test", Submitter: "ann", Key: "k", LocalIDs: []string{"l1", "l2"}}
			store := mem.New()
			dying := newCrashing(store, 1<<30, false)
			var once sync.Once
			settle := func(a *App) {
				a.locks = &dyingSettle{locker: a.locks, die: func() { once.Do(func() { close(dying.Dead) }) },
					after: after}
			}
			liveWith(t, dying, r.o, sub, settle)
			w := startOn(t, store, r.o)
			held, err := w.Locks(t.Context())
			if err != nil || !after && len(held) > 2 {
				t.Errorf("got %+v, %v", held, err)
			}
			rep := w.reported(w.end(w.submit(sub, "text").ID).ID)
			if rep.State != record.Completed || len(m.minted) != 1 {
				t.Errorf("got %v, %s", m.minted, rep.Text())
			}
			if _, _, minted, err := w.inventory.Counts(t.Context()); err != nil || minted != 1 {
				t.Errorf("got %d, %v", minted, err)
			}
			if want := 2; !after && m.calls != want || after && m.calls != 1 {
				t.Errorf("after=%t: the minter was asked %d times", after, m.calls)
			}
			w.awaitLocks("in the end", none)
		})
	}
}

// dyingSettle crashes before or after an identifier is settled.
type dyingSettle struct {
	locker
	die   func()
	after bool
}

func (d *dyingSettle) Settle(ctx context.Context, c inventory.Claim, locks []inventory.Lock,
	ark string) (inventory.Name, error) {
	if d.after {
		if _, err := d.locker.Settle(ctx, c, locks, ark); err != nil {
			return inventory.Name{}, err
		}
	}
	d.die()
	<-ctx.Done() // nothing goes on in a dead process
	return inventory.Name{}, ctx.Err()
}

// liveWith runs an application that a test has changed until it crashes.
func liveWith(t *testing.T, m *crashing, o Options, s Submission, change func(*App)) {
	t.Helper()
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	change(a)
	e, err := engine.New(m, a.Works(), engine.Options{Deliver: a.Deliver(), Sweep: time.Hour, Grace: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	a.Bind(e)
	ctx, kill := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { _ = e.Run(ctx); close(done) }()
	if _, err := a.Submit(ctx, s, strings.NewReader("text")); err != nil {
		t.Error(err)
	}
	<-m.Dead
	m.End() // whatever the crashing step would still commit is lost
	kill()
	select {
	case <-done:
	case <-time.After(50 * time.Millisecond):
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// TestReasonsOfIdentity has the reasons for which Processing refuses identifiers.
func TestReasonsOfIdentity(t *testing.T) {
	other := testProfile()
	other.ID, other.Owner = "other", "museum"
	w := start(t, testProfile(), other)
	a := w.one(Submission{LocalIDs: []string{"l1"}}, "a")
	b := w.one(Submission{LocalIDs: []string{"l2"}}, "b")
	// the same local id of another owner is another one
	c := w.one(Submission{Profile: "other", LocalIDs: []string{"l1"}}, "c")
	if a.ARK == b.ARK || a.ARK == c.ARK {
		t.Fatalf("got %s, %s, %s", a.ARK, b.ARK, c.ARK)
	}
	for name, s := range map[string]Submission{
		"local ID and primary ID mapping is incorrect: local id l1 is " +
			a.ARK: {PrimaryID: b.ARK, LocalIDs: []string{"l1"}},
		"mapping is incorrect: local id l2 is " +
			b.ARK: {PrimaryID: "ark:/99999/fk4new", LocalIDs: []string{"l9", "l2"}},
		"of two objects": {LocalIDs: []string{"l1", "l2"}},
		"another owner":  {PrimaryID: c.ARK},
	} {
		r := w.ingest(s, "x")
		if j := r.Jobs[0]; r.State != record.Failed || j.Cause != CauseIdentifiers || j.FailedIn != record.Processing ||
			!strings.Contains(j.Message, name) {
			t.Errorf("%s: got %s", name, r.Text())
		}
	}
	m := &minter{next: []string{"doi:10.5072/x"}}
	w2 := start(t, newMinter(t, m))
	if j := w2.ingest(Submission{}, "x").Jobs[0]; j.Cause != CauseBadIdentifier ||
		!strings.Contains(j.Message, "the minter gave no ARK") {
		t.Errorf("got %+v", j)
	}
	for _, ark := range []string{a.ARK, b.ARK, c.ARK} {
		if o := w.object(ark); len(o.Versions) != 1 {
			t.Errorf("got %+v", o)
		}
	}
}

func TestSeveralLocalIDs(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha"})
	w := start(t)
	r := w.ingest(Submission{}, manifest("mrt-single-file-batch-manifest", s.row("a.txt", " l2; l1 ;;l2 ;l3", "T")))
	j := r.Jobs[0]
	if diff := cmp.Diff([]string{"l2", "l1", "l3"}, j.LocalIDs); diff != "" || r.State != record.Completed {
		t.Fatalf("%s %s", diff, r.Text())
	}
	more := w.one(Submission{LocalIDs: []string{"l4;l1"}, Update: true, Filename: "b.txt"}, "beta")
	if more.ARK != j.ARK || more.Version != 2 {
		t.Fatalf("got %+v", more)
	}
	if diff := cmp.Diff([]string{"l1", "l2", "l3", "l4"}, w.object(j.ARK).LocalIDs); diff != "" {
		t.Error(diff)
	}
	if got := w.files(j.ARK, "v2")["system/mrt-erc.txt"]; !strings.Contains(got, "where: l2") ||
		!strings.Contains(got, "where: l4") {
		t.Errorf("got %s", got)
	}
	for _, id := range []string{"l1", "l2", "l3", "l4"} {
		if all, err := w.Objects(t.Context(), ObjectQuery{LocalID: id}); err != nil || len(all) != 1 ||
			all[0].ARK != j.ARK {
			t.Errorf("%s: got %+v, %v", id, all, err)
		}
	}
	if by := w.one(Submission{LocalIDs: []string{"l4"}, Filename: "c.txt"}, "gamma"); by.ARK != j.ARK {
		t.Errorf("the new local id is a name of the object: got %s", by.ARK)
	}
}

// TestSidecars has the content of each file of metadata and their order.
func TestSidecars(t *testing.T) {
	ercText := "erc:\nwho: E who\nwhat: E what\nwhen: 1991\n"
	dcText := `<dc xmlns="http://purl.org/dc/elements/1.1/"><title>D title</title><creator>D creator</creator><date>1992</date></dc>`
	dataCiteText := `<resource xmlns="http://datacite.org/schema/kernel-4"><creators><creator><creatorName>C creator</creatorName></creator></creators>` +
		`<titles><title>C title</title></titles><publicationYear>1993</publicationYear></resource>`
	w := start(t)
	for name, c := range map[string]struct {
		s     Submission
		files []string
		want  [3]string
	}{
		"row": {Submission{Title: "R", Creator: "R who", Date: "1990"},
			[]string{record.DublinCoreName, dcText, record.DataCiteName, dataCiteText}, [3]string{"C title",
				"C creator", "1993"}},
		"erc": {Submission{}, []string{record.DataCiteName, dataCiteText, record.DublinCoreName, dcText,
			record.ERCName, ercText}, [3]string{"E what", "E who", "1991"}},
		"dc": {Submission{}, []string{record.DataCiteName, dataCiteText, record.DublinCoreName, dcText},
			[3]string{"C title", "C creator", "1993"}},
		"dc alone": {Submission{Title: "R"}, []string{record.DublinCoreName, dcText},
			[3]string{"D title", "D creator", "1992"}},
		"nothing": {Submission{Title: "R", Creator: "R who", Date: "1990"}, nil, [3]string{"R", "R who", "1990"}},
		"datacite": {Submission{}, []string{record.DataCiteName, dataCiteText},
			[3]string{"C title", "C creator", "1993"}},
		"mixed": {Submission{Date: "1990"}, []string{record.DataCiteName, dataCiteText, record.ERCName,
			"erc:\nwho: E who\nwhat: (:unkn)\nwhen: x\n"}, [3]string{"C title", "E who", "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.s.Filename = "c.zip"
			j := w.one(c.s, zipOf(t, append([]string{"data.txt", "x"}, c.files...)...))
			o, files := w.object(j.ARK), w.files(j.ARK, "v1")
			if got := [3]string{o.Title, o.Creator, o.Date}; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			for i := 0; i < len(c.files); i += 2 { // what was brought is kept as it is
				if files["producer/"+c.files[i]] != c.files[i+1] {
					t.Errorf("%s: got %s", c.files[i], files["producer/"+c.files[i]])
				}
			}
			_, wrote := files["system/"+record.DataCiteName]
			if brought := slices.Contains(c.files, record.DataCiteName); wrote == brought {
				t.Errorf("DataCite: brought %t, written %t", brought, wrote)
			}
		})
	}
}

func TestDataCiteIsWrittenWhenThereIsEnough(t *testing.T) {
	w := start(t)
	for name, c := range map[string]struct {
		s    Submission
		want bool
	}{
		"all": {Submission{Title: "T & <T>", Creator: "Lee, A.; Ray, B.", Date: "2009-05-01",
			LocalIDs: []string{"l1"}}, true},
		"no title":   {Submission{Creator: "C", Date: "2009"}, false},
		"no creator": {Submission{Title: "T", Date: "2009"}, false},
		"no date":    {Submission{Title: "T", Creator: "C"}, false},
		"no year":    {Submission{Title: "T", Creator: "C", Date: "in spring"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			j := w.one(c.s, name)
			text, wrote := w.files(j.ARK, "v1")["system/"+record.DataCiteName]
			if wrote != c.want {
				t.Fatalf("got %s", text)
			}
			if !c.want {
				return
			}
			for _, want := range []string{
				`<identifier identifierType="ARK">` + j.ARK +
					`</identifier>`, `<creatorName>Lee, A.</creatorName>`, `<creatorName>Ray, B.</creatorName>`,
				`<title>T &amp; &lt;T&gt;</title>`, `<publisher>library</publisher>`,
				`<publicationYear>2009</publicationYear>`,
				`<date dateType="Created">2009-05-01</date>`,
				`<alternateIdentifier alternateIdentifierType="local">l1</alternateIdentifier>`,
			} {
				if !strings.Contains(text, want) {
					t.Errorf("%s is not in %s", want, text)
				}
			}
		})
	}
}

// noise is text that no packing makes small.
func noise(n int) string {
	text := make([]byte, n)
	chance := rand.New(rand.NewPCG(1, 2))
	for i := range text {
		text[i] = byte('a' + chance.IntN(26))
	}
	return string(text)
}

func TestHostileSidecars(t *testing.T) {
	w := start(t)
	for name, text := range map[string]string{
		"entity": `<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x><title>&a;</title></x>`,
		"bomb":   `<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><x>&b;</x>`,
		"deep":   strings.Repeat("<a>", 100) + noise(10_000) + strings.Repeat("</a>", 100),
		"large":  "<a>" + noise(5<<20) + "</a>",
	} {
		for _, file := range []string{record.DublinCoreName, record.DataCiteName} {
			j := w.one(Submission{Filename: "c.zip"}, zipOf(t, "data.txt", "x", file, text))
			if len(j.Warnings) == 0 || !strings.HasPrefix(j.Warnings[0], file) || j.Title != "" ||
				w.files(j.ARK, "v1")["producer/"+file] != text {
				t.Errorf("%s in %s: got %q, %q", name, file, j.Title, j.Warnings)
			}
		}
	}
	j := w.one(Submission{Filename: "c.zip"}, zipOf(t, "data.txt", "x", record.ERCName, "erc:\nwho: "+noise(5<<20)))
	if len(j.Warnings) != 1 {
		t.Errorf("got %q", j.Warnings)
	}
	w.valid()
}
