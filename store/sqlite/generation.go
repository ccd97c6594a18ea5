package sqlite

import (
	"slices"
	"sync/atomic"

	"github.com/stagepost/stagepost/job"
)

// generation are the newest rows of some consecutive records of the log.
type generation struct {
	jobs       map[job.ID]*entry
	rows       map[int64]*entry  // the same by row number
	entries    chunked[entry]    // those of a generation that readers use
	firstEvent int64             // number of the first of events
	events     chunked[eventRow] // consecutive
	audits     []job.Audit       // consecutive
	tasks      map[int64][]job.Task
	keys       map[string][]keyRow
	messages   map[string]job.Message
	holds      map[job.Scope]*job.Hold // nil for a released one
	touched    []*entry                // of the open record, each once, instead of jobs

	number   int64    // of the generation, from 1: each one that replaces another has the next
	contents [][]byte // of the records
	memory   memory   // of contents
	bytes    int      // of contents
	last     uint64   // number of the last record
	numbers  numbers  // after it

	readers atomic.Int32 // views that are not closed
}

// eventRow is a history entry with the row of its job and the distance to the entry before.
type eventRow struct {
	job, back int64
	event     job.Event
}

// keyRow is an idempotency key of the job in a row.
type keyRow struct {
	kind  job.Kind
	owner string
	id    job.ID
	n     int64
}

func newGeneration() *generation { return generationLike(&generation{}) }

// generationLike returns an empty generation with space for as much as another one has.
func generationLike(g *generation) *generation {
	return &generation{
		number: g.number + 1,
		jobs:   make(map[job.ID]*entry, len(g.jobs)), rows: make(map[int64]*entry, len(g.rows)),
		contents: make([][]byte, 0, len(g.contents)),
		tasks:    map[int64][]job.Task{}, keys: map[string][]keyRow{},
		messages: map[string]job.Message{}, holds: map[job.Scope]*job.Hold{},
	}
}

// clear empties a generation that no reader has. Its memory remains.
func (g *generation) clear() {
	clear(g.jobs)
	clear(g.rows)
	clear(g.tasks)
	clear(g.keys)
	clear(g.messages)
	clear(g.holds)
	for _, e := range g.touched {
		e.open = false
	}
	clear(g.touched)
	g.touched = g.touched[:0]
	clear(g.audits)
	g.audits = g.audits[:0]
	clear(g.contents)
	g.contents = g.contents[:0]
	g.entries.clear()
	g.events.clear()
	g.memory.clear()
	g.firstEvent, g.bytes, g.last, g.numbers = 0, 0, 0, numbers{}
}

// reusable reports whether the memory of the generation is worth keeping for another one: it is neither the largest
// that a busy store needs nor much larger than what was used of it.
func (g *generation) reusable() bool {
	return g.bytes <= 2*manyUnsaved && !g.events.sparse() && !g.entries.sparse()
}

// put copies an entry, which notes where its copy is: most are changed several times while a generation grows.
func (g *generation) put(e *entry) {
	if e.in != g.number {
		if c := g.jobs[e.job.ID]; c != nil {
			e.slot = c.slot
		} else {
			e.slot = g.entries.n
			c = g.entries.next()
			g.jobs[e.job.ID], g.rows[e.n] = c, c
		}
		e.in = g.number
	}
	c := g.entries.at(e.slot)
	*c = *e
	c.open = false
}

func (g *generation) putTask(n int64, t job.Task) {
	list := g.tasks[n]
	if i := slices.IndexFunc(list, func(old job.Task) bool { return old.Name == t.Name }); i >= 0 {
		list[i] = t
		return
	}
	g.tasks[n] = append(list, t)
}

// nextEvent adds a history entry, whose number follows that of the last one, for the caller to set.
func (g *generation) nextEvent(number int64) *eventRow {
	if g.events.n == 0 {
		g.firstEvent = number
	}
	return g.events.next()
}

func (g *generation) key(kind job.Kind, owner, key string) job.ID {
	for _, k := range g.keys[key] {
		if k.kind == kind && k.owner == owner {
			return k.id
		}
	}
	return ""
}

// chunked is a list that grows by chunks of one size: without copies, and with memory that can be used again.
type chunked[T any] struct {
	n      int
	chunks []*[chunkLength]T
}

const chunkLength = 64

// next adds an element.
func (c *chunked[T]) next() *T {
	if c.n == len(c.chunks)*chunkLength {
		c.chunks = append(c.chunks, new([chunkLength]T))
	}
	c.n++
	return c.at(c.n - 1)
}

func (c *chunked[T]) at(i int) *T { return &c.chunks[i/chunkLength][i%chunkLength] }

// sparse reports whether most chunks are empty.
func (c *chunked[T]) sparse() bool { return len(c.chunks) > 4 && c.n < len(c.chunks)*chunkLength/4 }

// clear removes all elements. The chunks remain.
func (c *chunked[T]) clear() {
	for i := 0; i < c.n; i += chunkLength {
		*c.chunks[i/chunkLength] = [chunkLength]T{}
	}
	c.n = 0
}

// memory has bytes in buffers that are used again.
type memory struct {
	buffers [][]byte
	at      int // index of the one that is filled
}

const bufferBytes = 64 << 10

// copy returns a copy, which is valid until clear.
func (m *memory) copy(b []byte) []byte {
	for ; m.at < len(m.buffers); m.at++ {
		if to := m.buffers[m.at]; cap(to)-len(to) >= len(b) {
			break
		}
	}
	if m.at == len(m.buffers) {
		m.buffers = append(m.buffers, make([]byte, 0, max(bufferBytes, len(b))))
	}
	to := append(m.buffers[m.at], b...)
	m.buffers[m.at] = to
	return to[len(to)-len(b) : len(to) : len(to)]
}

// clear empties the buffers.
func (m *memory) clear() {
	for i, b := range m.buffers {
		m.buffers[i] = b[:0]
	}
	m.at = 0
}
