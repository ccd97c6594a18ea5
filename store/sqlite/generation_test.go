package sqlite

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stagepost/stagepost/job"
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
