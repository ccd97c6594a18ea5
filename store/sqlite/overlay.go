package sqlite

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
)

// overlay has the rows that are in the log and not in the database yet. It has two generations: the fresh one, which
// grows, and the one that the applier writes to the database. A reader takes both as they are before its read of the
// database begins ([overlay.view]): a row that is in neither is in the database that it then sees.
type overlay struct {
	mu       sync.RWMutex // guards all below, and the maps of the generations
	fresh    *generation
	applying *generation // nil if there is none
}

// generation are the newest rows of some consecutive records of the log.
type generation struct {
	jobs       map[job.ID]*entry
	rows       map[int64]*entry // the same by row number
	space      []entry          // for further ones
	firstEvent int64            // number of the first of events
	events     eventRows        // consecutive
	audits     []job.Audit      // consecutive
	tasks      map[int64][]job.Task
	keys       map[string][]keyRow
	messages   map[string]job.Message
	holds      map[job.Scope]*job.Hold // nil for a released one
	touched    []*entry                // of the open record, each once, instead of jobs

	contents [][]byte // of the records
	bytes    int      // of contents
	last     uint64   // number of the last record
	numbers  numbers  // after it
}

// eventRow is a history entry with the row of its job and the distance to the entry before.
type eventRow struct {
	job, back int64
	event     job.Event
}

// eventRows is a list in parts of one size: it grows without copies, and without memory that is too large to be used
// again soon.
type eventRows struct {
	n     int
	parts []*[eventsPart]eventRow
}

const eventsPart = 64

func (r *eventRows) add(e *eventRow) {
	if r.n == len(r.parts)*eventsPart {
		r.parts = append(r.parts, new([eventsPart]eventRow))
	}
	*r.at(r.n) = *e
	r.n++
}

func (r *eventRows) at(i int) *eventRow { return &r.parts[i/eventsPart][i%eventsPart] }

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
		jobs: make(map[job.ID]*entry, len(g.jobs)), rows: make(map[int64]*entry, len(g.rows)),
		contents: make([][]byte, 0, len(g.contents)),
		tasks:    map[int64][]job.Task{}, keys: map[string][]keyRow{},
		messages: map[string]job.Message{}, holds: map[job.Scope]*job.Hold{},
	}
}

// clear empties a generation that no reader has.
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
	clear(g.audits)
	*g = generation{jobs: g.jobs, rows: g.rows, events: eventRows{parts: g.events.parts}, audits: g.audits[:0],
		tasks: g.tasks, keys: g.keys, messages: g.messages, holds: g.holds, touched: g.touched[:0]}
}

// put copies an entry.
func (g *generation) put(e *entry) {
	c := g.jobs[e.job.ID]
	if c == nil {
		if len(g.space) == 0 {
			g.space = make([]entry, entriesAtOnce)
		}
		c, g.space = &g.space[0], g.space[1:]
		g.jobs[e.job.ID], g.rows[e.n] = c, c
	}
	*c = *e
	c.open = false
}

// entriesAtOnce is for how many entries a generation allocates space.
const entriesAtOnce = 32

func (g *generation) putTask(n int64, t job.Task) {
	list := g.tasks[n]
	if i := slices.IndexFunc(list, func(old job.Task) bool { return old.Name == t.Name }); i >= 0 {
		list[i] = t
		return
	}
	g.tasks[n] = append(list, t)
}

func (g *generation) putEvent(number int64, e *eventRow) {
	if g.events.n == 0 {
		g.firstEvent = number
	}
	g.events.add(e)
}

func (g *generation) key(kind job.Kind, owner, key string) job.ID {
	for _, k := range g.keys[key] {
		if k.kind == kind && k.owner == owner {
			return k.id
		}
	}
	return ""
}

// publish adds the rows of a record, of which the loop goes on changing the entries, to the fresh generation. It
// returns the bytes of all records that are not applied.
func (o *overlay) publish(from *generation, content []byte, last uint64, n numbers) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.fresh
	for _, e := range from.touched {
		g.put(e)
	}
	for i := range from.events.n {
		g.putEvent(from.firstEvent+int64(i), from.events.at(i))
	}
	g.audits = append(g.audits, from.audits...)
	for n, tasks := range from.tasks {
		for _, t := range tasks {
			g.putTask(n, t)
		}
	}
	for key, rows := range from.keys {
		g.keys[key] = append(g.keys[key], rows...)
	}
	maps.Copy(g.messages, from.messages)
	maps.Copy(g.holds, from.holds)
	g.contents = append(g.contents, content)
	g.bytes += len(content)
	g.last, g.numbers = last, n
	if o.applying != nil {
		return g.bytes + o.applying.bytes
	}
	return g.bytes
}

// take makes the fresh generation the one that is applied, unless there is one still, and returns it; nil if there is
// nothing to apply. more reports that a fresh one remains.
func (o *overlay) take() (g *generation, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.applying != nil {
		return o.applying, true
	}
	if len(o.fresh.contents) > 0 {
		o.applying, o.fresh = o.fresh, generationLike(o.fresh)
	}
	return o.applying, false
}

// empty reports whether the database has everything.
func (o *overlay) empty() bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.applying == nil && len(o.fresh.contents) == 0
}

// applied drops the generation that is in the database now.
func (o *overlay) applied() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.applying = nil
}

// view is the overlay as one reader sees it. The zero view is empty.
type view struct {
	overlay     *overlay
	generations [2]*generation // the newer one first
}

func (o *overlay) view() view {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return view{o, [2]*generation{o.fresh, o.applying}}
}

// each calls do with the generations, the newer one first, until it returns true.
func (v *view) each(do func(g *generation) bool) {
	if v.overlay == nil {
		return
	}
	v.overlay.mu.RLock()
	defer v.overlay.mu.RUnlock()
	for _, g := range v.generations {
		if g != nil && do(g) {
			return
		}
	}
}

// job returns a copy of the entry of a job, nil if the database has it. What it refers to is shared and read-only.
func (v *view) job(id job.ID) *entry {
	return v.copy(func(g *generation) *entry { return g.jobs[id] })
}

// row is job by row number.
func (v *view) row(n int64) *entry {
	return v.copy(func(g *generation) *entry { return g.rows[n] })
}

// copy copies the newest entry that find finds.
func (v *view) copy(find func(*generation) *entry) (e *entry) {
	v.each(func(g *generation) bool {
		if found := find(g); found != nil {
			c := *found // a later record changes it
			e = &c
		}
		return e != nil
	})
	return e
}

// event returns the history entry with a number.
func (v *view) event(number int64) (e eventRow, found bool) {
	v.each(func(g *generation) bool {
		if i := number - g.firstEvent; i >= 0 && i < int64(g.events.n) {
			e, found = *g.events.at(int(i)), true
		}
		return found
	})
	return e, found
}

// tasks returns the tasks of the job in a row that the database does not have in this form.
func (v *view) tasks(n int64) (tasks []job.Task) {
	v.each(func(g *generation) bool {
		for _, t := range g.tasks[n] {
			if !slices.ContainsFunc(tasks, func(newer job.Task) bool { return newer.Name == t.Name }) {
				t.Data, t.Changed = ownBytes(t.Data), stored(t.Changed)
				tasks = append(tasks, t)
			}
		}
		return false
	})
	return tasks
}

// withTasks replaces the tasks of the job in a row that the overlay has, and adds the new ones.
func (v *view) withTasks(n int64, tasks []job.Task) []job.Task {
	newer := v.tasks(n)
	if len(newer) == 0 {
		return tasks
	}
	tasks = slices.DeleteFunc(tasks, func(old job.Task) bool {
		return slices.ContainsFunc(newer, func(t job.Task) bool { return t.Name == old.Name })
	})
	tasks = append(tasks, newer...)
	slices.SortFunc(tasks, func(a, b job.Task) int { return cmp.Compare(a.Name, b.Name) })
	return tasks
}

// recent is what the overlay has for the ledger, in place of what the database has.
type recent struct {
	rows    map[int64]*entry
	holds   map[job.Scope]*job.Hold
	posted  int64    // highest number of its messages
	numbers *numbers // of its last record; nil if it has none
}

// recent returns all of it, for the commit loop: no record may be published while it is used.
func (v *view) recent() recent {
	r := recent{rows: map[int64]*entry{}, holds: map[job.Scope]*job.Hold{}}
	v.each(func(g *generation) bool {
		for n, e := range g.rows {
			if r.rows[n] == nil {
				r.rows[n] = e
			}
		}
		for scope, h := range g.holds {
			if _, newer := r.holds[scope]; !newer {
				r.holds[scope] = h
			}
		}
		for _, m := range g.messages {
			r.posted = max(r.posted, m.Number)
		}
		if r.numbers == nil && len(g.contents) > 0 {
			n := g.numbers
			r.numbers = &n
		}
		return false
	})
	return r
}

// keyed returns the job that was created with a key, "" if the overlay has none.
func (v *view) keyed(kind job.Kind, owner, key string) (id job.ID) {
	v.each(func(g *generation) bool { id = g.key(kind, owner, key); return id != "" })
	return id
}

// rowsOf returns the rows of the jobs that were created with a key, by any owner.
func (v *view) rowsOf(key string) (found []int64) {
	v.each(func(g *generation) bool {
		for _, k := range g.keys[key] {
			found = append(found, k.n)
		}
		return false
	})
	return found
}

// messages returns all of them by key. They are shared and read-only.
func (v *view) messages() map[string]job.Message {
	var all map[string]job.Message
	v.each(func(g *generation) bool {
		for key, m := range g.messages {
			if _, newer := all[key]; newer {
				continue
			}
			if all == nil {
				all = make(map[string]job.Message, len(g.messages))
			}
			all[key] = m
		}
		return false
	})
	return all
}

// message returns a message by key.
func (v *view) message(key string) (m job.Message, found bool) {
	v.each(func(g *generation) bool { m, found = g.messages[key]; return found })
	return m, found
}

// own makes the entry share no memory with others and have the form in which it is read from the database.
func (e *entry) own() *entry {
	j := &e.job
	j.Spec, j.Data = ownBytes(j.Spec), ownBytes(j.Data)
	j.Tags, j.Requires = slices.Clone(j.Tags), slices.Clone(j.Requires)
	for _, t := range [...]*time.Time{&j.Created, &j.Until, &j.Due, &j.Deadline, &j.Expires, &j.Entered, &j.Changed} {
		*t = stored(*t)
	}
	return e
}

// ownBytes copies bytes, nil for none.
func ownBytes(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return bytes.Clone(b)
}

// stored returns a time as the database stores it.
func stored(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return unixMicro(t.UnixMicro())
}
