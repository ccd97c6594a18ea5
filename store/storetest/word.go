package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/job/words"
	"github.com/stagepost/stagepost/lifecycle"
)

var wordTests = []test{
	{"kept as they are, whatever becomes of the job", wordKept},
	{"what are no words, too many and another order are invalid", wordInvalid},
	{"found by all words, the last one as a beginning", wordFound},
	{"no difference of case, accents and forms", wordForms},
	{"with every other filter, of an owner", wordFilters},
	{"a change replaces them", wordChanged},
	{"a purged job has none", wordPurged},
	{"a query with what is no word is invalid", wordQueryInvalid},
	{"random words, in pages and both orders", wordRandom},
	{"the words of many jobs", wordMany},
}

// named gives a job the words of texts.
func named(texts ...string) func(*job.Job) {
	return func(j *job.Job) { j.Words = words.Of(texts...) }
}

// finds lists the jobs with words, or checks that the store refuses to.
func (w *harness) finds(what string, q job.Query, want ...job.Job) {
	w.Helper()
	if !w.st.Properties().Words {
		_, err := w.st.List(w.Context(), q)
		w.refused(err, job.Refused)
		return
	}
	same(w, what, ids(w.list(q)), ids(want))
}

// sought is a query for words.
func sought(text string) job.Query { return job.Query{Words: words.Sought(text)} }

func wordKept(w *harness) {
	var long []string
	for i := 0; len(strings.Join(long, " ")) < job.MostWords-10; i++ {
		long = append(long, fmt.Sprintf("w%07d", i))
	}
	text := strings.Join(long, " ")
	text += " " + strings.Repeat("x", job.MostWords-len(text)-1)
	j, full, plain := w.step(named("Maps of Crete"), key("k")), w.step(func(j *job.Job) { j.Words = text }), w.step()
	for range 2 {
		same(w, "words", w.get(j.ID).Words, "crete maps of")
		same(w, "the most", w.get(full.ID).Words, text)
		same(w, "none", w.get(plain.ID).Words, "")
		same(w, "in a list", w.list(job.Query{Key: "k"})[0].Words, "crete maps of")
		w.finds("the last of many", sought("w0000000 xx"), full)
		w.restart()
	}
	j = w.moved(w.get(j.ID), lifecycle.Worker, "begin")
	same(w, "of a job that moved", j.Words, "crete maps of")
	j = w.moved(w.moved(j, lifecycle.Operator, "cancel"), lifecycle.Operator, "delete")
	w.restart()
	same(w, "of a tombstone", w.get(j.ID).Words, "crete maps of")
	w.finds("a tombstone", sought("crete"), j)
	w.sound()
}

func wordInvalid(w *harness) {
	at := w.step(named("maps"))
	before := w.snapshot(at.ID)
	bad := []string{" ", "a ", " a", "a  b", "b a", "a a", "A", "a-b", "a\n", "\x00", "\xff", "a\xc3", "a\tb", "\"",
		strings.Repeat("x", job.MostWord+1), strings.TrimSpace(strings.Repeat("x ", 600))}
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprintf("w%06d", i))
	}
	for _, text := range append(bad, strings.Join(many, " ")) {
		_, err := w.st.Create(w.Context(), w.made(Step, func(j *job.Job) { j.Words = text }))
		if job.KindOf(err) != job.Invalid {
			w.Errorf("words %q: %v", text, err)
		}
		_, err = w.commit(job.Change{Job: at.ID, Version: at.Version, At: w.now(), Set: job.Fields{Words: &text}})
		if job.KindOf(err) != job.Invalid {
			w.Errorf("a change to %q: %v", text, err)
		}
	}
	w.unchanged(before)
	same(w, "jobs", len(w.list(job.Query{})), 1)
	batch := w.create(w.made(Batch, expecting(1)))[0]
	_, err := w.commit(w.move(batch, "begin", lifecycle.Worker, func(c *job.Change) {
		c.Spawn = []job.Created{w.made(Step, parent(batch.ID), func(j *job.Job) { j.Words = "Maps" })}
	}))
	w.refused(err, job.Invalid)
	w.sound()
}

func wordFound(w *harness) {
	crete, creatures := w.step(named("Maps of Crete, 1900")), w.step(named("creatures.pdf", "Smith, J."))
	w.step()
	both := w.step(named("Maps of creatures in Crete", "Smith"))
	for range 2 {
		for text, want := range map[string][]job.Job{
			"maps": {both, crete}, "map": {both, crete}, "maps crete": {both, crete}, "crete maps": {both, crete},
			"map crete": nil, "cre": {both, creatures, crete}, "creat": {both, creatures},
			"smith creatures":      {both, creatures},
			"smith maps creatures": {both}, "creatures maps smi": {both}, "1900": {crete}, "19": {crete}, "900": nil,
			"crete crete": {both, crete}, "pdf j": {creatures}, "nothing": nil, "maps nothing": nil,
			"nothing maps": nil,
		} {
			w.finds(text, sought(text), want...)
			q := sought(text)
			q.Oldest = true
			slices.Reverse(want)
			w.finds(text+", oldest first", q, want...)
		}
		w.restart()
	}
	w.sound()
}

func wordForms(w *harness) {
	street := w.step(named("\u00dcBER die Stra\u00dfe"))
	athens := w.step(named("\u0391\u0398\u0397\u039d\u0391 E\u0301tudes"))
	for text, want := range map[string][]job.Job{
		"uber": {street}, "\u00fcber": {street}, "u\u0308BER": {street}, "strasse": {street}, "STRASSE": {street},
		"stras": {street}, "\u03b1\u03b8\u03ae\u03bd": {athens}, "etudes": {athens}, "\u00c9TUD": {athens},
		"\u00e9tudes \u0391\u03b8": {athens},
	} {
		w.finds(text, sought(text), want...)
	}
	w.sound()
}

func wordFilters(w *harness) {
	var all []job.Job
	for i := range 12 {
		all = append(all, w.step(named("Maps", fmt.Sprint("part", i)), owner([]string{"ann", "bob"}[i%2]),
			group([]string{"maps", "books", "art"}[i%3]), tagged("queue=a")))
	}
	cancelled := w.moved(all[4], lifecycle.Operator, "cancel")
	w.finds("of an owner", job.Query{Words: []string{"maps"}, Owner: "ann", Group: "maps"}, all[6], all[0])
	w.finds("of another", job.Query{Words: []string{"maps", "part1"}, Owner: "bob"}, all[11], all[1])
	w.finds("of none", job.Query{Words: []string{"maps"}, Owner: "eve"})
	w.finds("ended", job.Query{Words: []string{"maps"}, Ended: ptr(true), Tag: "queue=a"}, cancelled)
	w.finds("of a kind", job.Query{Words: []string{"maps"}, Kinds: []job.Kind{batchKind}})
	busy := w.claim("w7", 1)[0]
	w.finds("of a worker", job.Query{Words: []string{"ma"}, Worker: "w7"}, busy)
	w.finds("of a worker, other words", job.Query{Words: []string{"books"}, Worker: "w7"})
	w.finds("a page", job.Query{Words: []string{"maps"}, Owner: "ann", Limit: 2}, all[10], all[8])
	w.sound()
}

func wordChanged(w *harness) {
	j, other := w.step(), w.step(named("Old maps"))
	set := func(j job.Job, text string) job.Job {
		w.Helper()
		return w.must(job.Change{Job: j.ID, Version: j.Version, At: w.now(), Set: job.Fields{Words: &text}})
	}
	j = set(j, words.Of("New maps"))
	w.finds("given later", sought("new"), j)
	w.finds("both", sought("maps"), other, j)
	j = set(j, words.Of("Newer charts"))
	for range 2 {
		w.finds("replaced", sought("maps"), other)
		w.finds("the new ones", sought("charts newer"), j)
		w.restart()
	}
	j = w.must(w.move(w.claim("w1", 1)[0], "begin", lifecycle.Worker, func(c *job.Change) {
		text := "atlas"
		c.Set.Words = &text
	}))
	w.finds("with a transition", sought("atlas"), j)
	j = w.must(w.move(j, "fail", lifecycle.Operator, func(c *job.Change) { c.Epoch, c.Version = 0, j.Version }))
	w.finds("after one without", sought("atlas"), j)
	j = set(j, "")
	for range 2 {
		w.finds("removed", sought("atlas"))
		same(w, "none", w.get(j.ID).Words, "")
		w.restart()
	}
	batch := w.moved(w.create(w.made(Batch, expecting(1)))[0], lifecycle.Worker, "begin")
	w.must(job.Change{Job: batch.ID, Version: batch.Version, At: w.now(),
		Spawn: []job.Created{w.made(Step, parent(batch.ID), named("spawned"))}})
	w.finds("a child", job.Query{Words: []string{"spawned"}}, w.list(job.Query{Parent: batch.ID})...)
	w.sound()
}

func wordPurged(w *harness) {
	j, other := w.tombstone(named("Old maps")), w.step(named("Maps"))
	w.must(w.purge(j))
	for range 2 {
		w.finds("after a purge", sought("maps"), other)
		w.finds("its own word", sought("old"))
		w.restart()
	}
	again := w.create(w.made(Step, func(o *job.Job) { o.ID = j.ID }, named("old")))[0]
	w.finds("a job with its id", sought("old"), again)
	w.sound()
}

func wordQueryInvalid(w *harness) {
	if !w.st.Properties().Words {
		return
	}
	w.step(named("maps"))
	for _, bad := range [][]string{{""}, {"maps", ""}, {"", "maps"}, {"Maps"}, {"a b"}, {"a%"}, {"\xff"},
		{strings.Repeat("x", job.MostWord+1)}, slices.Repeat([]string{"maps"}, job.MostSought+1)} {
		for _, q := range []job.Query{{Words: bad}, {Words: bad, Worker: "w1"}} {
			_, err := w.st.List(w.Context(), q)
			if job.KindOf(err) != job.Invalid {
				w.Errorf("%q: %v", bad, err)
			}
		}
	}
	w.finds("the most words", job.Query{Words: slices.Repeat([]string{"maps"}, job.MostSought)},
		w.list(job.Query{})...)
	_, err := w.st.List(w.Context(), job.Query{Words: []string{"maps"}, After: "nonsense"})
	w.refused(err, job.Invalid)
}

// wordRandom compares pages with a search through all records, while words change and jobs are purged.
func wordRandom(w *harness) {
	if !w.st.Properties().Words {
		return
	}
	vocabulary := []string{"a", "ab", "abc", "b", "ba", "map", "maps", "zzz"}
	random := rand.New(rand.NewPCG(3, 5))
	some := func(most int) (list []string) {
		for range random.IntN(most + 1) {
			list = append(list, vocabulary[random.IntN(len(vocabulary))])
		}
		return list
	}
	for range w.scale(12, 4) {
		for range 40 {
			w.step(named(some(3)...))
		}
		for _, j := range w.list(job.Query{Limit: 1000}) {
			switch text := words.Of(some(3)...); random.IntN(12) {
			case 0:
				w.must(job.Change{Job: j.ID, Version: j.Version, At: w.now(), Set: job.Fields{Words: &text}})
			case 1:
				w.must(w.purge(w.moved(j, lifecycle.Operator, "cancel", "delete")))
			}
		}
		w.restart()
		all := w.list(job.Query{Limit: 1000})
		for range 20 {
			q := job.Query{Words: append(some(2), vocabulary[random.IntN(len(vocabulary))]),
				Oldest: random.IntN(2) == 0, Limit: 1 + random.IntN(60)}
			var want []job.ID
			for _, j := range all {
				if q.HasWords(&j) {
					want = append(want, j.ID)
				}
			}
			if q.Oldest {
				slices.Reverse(want)
			}
			same(w, fmt.Sprintf("%+v", q), w.pages(q), want)
		}
	}
	w.sound()
}

// wordMany has more jobs with a beginning of a word than one search reads.
func wordMany(w *harness) {
	if !w.st.Properties().Words {
		return
	}
	const n = 10_400
	var list []job.Created
	for i := range n {
		text := fmt.Sprint("many", i)
		if i%5000 == 7 {
			text += " maps"
		}
		list = append(list, w.made(Step, named(text), owner([]string{"ann", "bob"}[min(1, i/200)])))
	}
	for part := range slices.Chunk(list, 2600) {
		w.create(part...)
	}
	for _, oldest := range []bool{false, true} {
		page := did(w, "list", func() (job.Page, error) {
			return w.st.List(w.Context(), job.Query{Words: []string{"many"}, Oldest: oldest, Limit: 30})
		})
		first := list[n-1].Job.ID
		if oldest {
			first = list[0].Job.ID
		}
		if len(page.Jobs) != 30 || page.Jobs[0].ID != first || page.Next == "" {
			w.Errorf("a page of %d jobs, next %q", len(page.Jobs), page.Next)
		}
		found, pages := 0, 0
		q := job.Query{Words: []string{"many"}, Owner: "ann", Oldest: oldest, Limit: 1000}
		for more := true; more; pages++ {
			page := did(w, "list", func() (job.Page, error) { return w.st.List(w.Context(), q) })
			found += len(page.Jobs)
			q.After, more = page.Next, page.Next != ""
		}
		if found != 200 || pages > 3 {
			w.Errorf("%d jobs of an owner in %d pages, oldest first: %t", found, pages, oldest)
		}
	}
	w.finds("a rare word and one of all", job.Query{Words: []string{"maps", "many"}}, w.get(list[10_007].Job.ID),
		w.get(list[5007].Job.ID), w.get(list[7].Job.ID))
	w.finds("one of many", job.Query{Words: []string{"many777"}}, w.list(job.Query{Words: []string{"many777"}})...)
	if found := w.list(job.Query{Words: []string{"many777"}}); len(found) != 11 {
		w.Errorf("many777 begins %d words", len(found))
	}
}
