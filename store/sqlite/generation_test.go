package sqlite

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// publishJobs publishes records of one job and one history entry each, all of the same round.
func publishJobs(o *overlay, round, n int) {
	from := newGeneration()
	for i := range n {
		row := int64(i + 1)
		e := &entry{n: row, job: job.Job{ID: job.ID(fmt.Sprint("tst_", row)), Version: int64(round)}}
		from.touched = append(from.touched, e)
		number := int64(round*n) + row
		*from.nextEvent(number) = eventRow{job: row, event: job.Event{Note: fmt.Sprint(round)}}
		o.publish(from, []byte(fmt.Sprintf("%d:%d", round, row)), uint64(number), numbers{entries: number})
		from.clear()
	}
}

// TestMemoryOfGenerations: the memory of a generation that is in the database is used for a later one, but not while a
// view of it is open: its rows stay as they were. The control: without an open view the same memory has other rows.
func TestMemoryOfGenerations(t *testing.T) {
	const n = 3 * chunkLength
	for _, reads := range []bool{true, false} {
		o := &overlay{fresh: newGeneration()}
		publishJobs(o, 1, n)
		g, _ := o.take()
		chunk, content := g.events.chunks[0], g.contents[0]
		v := o.view()
		if !reads {
			v.close()
		}
		o.applied()
		publishJobs(o, 2, n)
		o.take()
		o.applied()
		publishJobs(o, 3, n)
		used := o.fresh.events.chunks[0] == chunk || o.spare != nil && o.spare.events.chunks[0] == chunk
		if used == reads {
			t.Errorf("a view is open: %t; the memory is used again: %t", reads, used)
		}
		if !reads {
			if chunk[0].event.Note != "3" {
				t.Errorf("control: the memory has round %q", chunk[0].event.Note)
			}
			continue
		}
		for i := range int64(n) {
			e := v.generations[1].rows[i+1] // the other one has further rounds
			ev, found := v.event(int64(n) + i + 1)
			if e == nil || e.job.Version != 1 || !found || ev.event.Note != "1" {
				t.Fatalf("row %d: %+v, %+v", i+1, e, ev)
			}
		}
		if !bytes.Equal(content, []byte("1:1")) {
			t.Errorf("content %q", content)
		}
		v.close()
		if o.take(); o.applying.readers.Load() != 0 || g.readers.Load() != 0 {
			t.Error("a closed view counts as a reader")
		}
	}
}

// TestMemoryOfRareGenerations: the memory of a large generation is not kept for small ones, nor that of a very large
// one at all. The control: that of an ordinary one is.
func TestMemoryOfRareGenerations(t *testing.T) {
	o := &overlay{fresh: newGeneration()}
	kept := func(round, jobs, bytes int) bool {
		publishJobs(o, round, jobs)
		g, _ := o.take()
		g.bytes += bytes
		o.applied()
		return o.spare == g
	}
	if !kept(1, 40*chunkLength, 0) || !kept(2, 40*chunkLength, 0) {
		t.Error("control: the memory of an ordinary generation is not kept")
	}
	if kept(3, 1, 0) || kept(4, 1, 0) {
		t.Error("the memory of many rows is kept for few")
	}
	if !kept(5, 1, 0) {
		t.Error("the memory of few rows is not kept")
	}
	if kept(6, 1, 2*manyUnsaved) {
		t.Error("the memory of a very large generation is kept")
	}
}

// TestMemory: copies keep their content until clear, in buffers that are used again after it.
func TestMemory(t *testing.T) {
	var m memory
	for round := range 3 {
		var copies, want [][]byte
		for i, size := range []int{1, bufferBytes - 1, 10, 3 * bufferBytes, 0, bufferBytes, 7} {
			b := bytes.Repeat([]byte{byte(16*round + i)}, size)
			copies, want = append(copies, m.copy(b)), append(want, b)
		}
		for i := range copies {
			if !bytes.Equal(copies[i], want[i]) || cap(copies[i]) != len(copies[i]) {
				t.Errorf("round %d: copy %d has changed", round, i)
			}
		}
		m.clear()
	}
	total := 0
	for _, b := range m.buffers {
		total += cap(b)
	}
	if total > 8*bufferBytes {
		t.Errorf("%d buffers of %d bytes for copies of %d", len(m.buffers), total, 5*bufferBytes)
	}
}

// TestCopiesOfAnEntry: each generation has one copy of an entry, as it was last published there, whatever memory it has
// and wherever the entry was read.
func TestCopiesOfAnEntry(t *testing.T) {
	const n = 2 * chunkLength
	o, from := &overlay{fresh: newGeneration()}, newGeneration()
	entries := make([]*entry, n)
	for i := range entries {
		entries[i] = &entry{n: int64(i + 1), job: job.Job{ID: job.ID(fmt.Sprint("tst_", i))}}
	}
	publish := func(round int64, some []*entry) {
		for _, e := range some {
			e.job.Version = round
			from.touched = append(from.touched, e)
			o.publish(from, []byte("row"), uint64(round), numbers{})
			from.clear()
		}
	}
	check := func(g *generation, version int64, some []*entry) {
		t.Helper()
		if g.entries.n != len(some) || len(g.jobs) != len(some) || len(g.rows) != len(some) {
			t.Fatalf("%d copies of %d entries", g.entries.n, len(some))
		}
		for _, e := range some {
			byID, byRow := g.jobs[e.job.ID], g.rows[e.n]
			if byID == nil || byID != byRow || byID.job.ID != e.job.ID || byID.job.Version != version {
				t.Fatalf("%s: %+v, %+v; want version %d", e.job.ID, byID, byRow, version)
			}
		}
	}
	publish(1, entries)
	publish(2, entries)
	check(o.fresh, 2, entries)
	first, _ := o.take()
	some := slices.Clone(entries[n/2:])
	slices.Reverse(some)
	publish(3, some)
	check(o.applying, 2, entries)
	check(o.fresh, 3, some)
	v := o.view()
	for i, e := range some {
		if some[i] = v.job(e.job.ID); i%2 == 0 { // after the entry has left the cache
			some[i].in, some[i].slot = 0, 0 // as read from the database
		}
	}
	v.close()
	publish(4, some)
	check(o.fresh, 4, some)
	o.applied()
	o.take()
	if o.fresh != first {
		t.Fatal("the memory of the first generation is not used again")
	}
	copy(entries[n/2:], some)
	slices.Reverse(entries)
	publish(5, entries)
	check(o.applying, 4, some)
	check(o.fresh, 5, entries)
}

// TestMemoryOfEndedEntries: the memory of a record that has ended is used for a new one. What others have of the record
// stays as it was.
func TestMemoryOfEndedEntries(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{applyAfter: time.Hour})
	end := func(ids ...string) {
		t.Helper()
		var changes []job.Change
		for _, id := range ids {
			changes = append(changes, job.Change{Job: job.ID(id), Version: 1, Event: "end", Ended: true,
				To: lifecycle.Position{State: "Z"}, By: lifecycle.Worker, At: time.Now()})
		}
		results, err := s.Commit(t.Context(), changes...)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	create(t, s, "tst_1")
	end("tst_1")
	if n := len(s.records.cache.free); n != 1 {
		t.Fatalf("the memory of %d entries is free, want that of the one that has ended", n)
	}
	memory := s.records.cache.free[0]
	create(t, s, "tst_2")
	if e := s.records.cache.young["tst_2"]; e != memory {
		t.Error("the memory of the first record is not used again")
	}
	for range 2 { // in the overlay, in the database
		for _, id := range []job.ID{"tst_1", "tst_2"} {
			j, err := s.Get(t.Context(), id)
			if err != nil || j.ID != id || j.Ended != (id == "tst_1") {
				t.Errorf("%s: %+v, %v", id, j, err)
			}
		}
		if err := s.applier.flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var many []string
	for i := range mostFree + 10 {
		many = append(many, fmt.Sprintf("tst_%d", i+3))
	}
	create(t, s, many...)
	end(many...)
	if n := len(s.records.cache.free); n != mostFree {
		t.Errorf("the memory of %d entries is free, want that of %d", n, mostFree)
	}
}
