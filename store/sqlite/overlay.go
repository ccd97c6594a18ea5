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
	spare    *generation // an empty one that was applied, or nil
}

// publish copies the rows of a record and its content into the fresh generation: the loop uses their memory again. It
// returns the bytes of all records that are not applied.
func (o *overlay) publish(from *generation, content []byte, last uint64, n numbers) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.fresh
	for _, e := range from.touched {
		g.put(e)
	}
	for i := range from.events.n {
		*g.nextEvent(from.firstEvent + int64(i)) = *from.events.at(i)
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
	g.contents = append(g.contents, g.memory.copy(content))
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
		next := o.spare
		if next == nil {
			next = generationLike(o.fresh)
		}
		next.number = o.fresh.number + 1 // of the spare one too
		o.applying, o.fresh, o.spare = o.fresh, next, nil
	}
	return o.applying, false
}

// empty reports whether the database has everything.
func (o *overlay) empty() bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.applying == nil && len(o.fresh.contents) == 0
}

// applied drops the generation that is in the database now. Its memory is used again, unless a reader has it.
func (o *overlay) applied() {
	o.mu.Lock()
	g := o.applying
	o.applying = nil
	unread := g.readers.Load() == 0 // no further reader can find it
	o.mu.Unlock()
	if !unread || !g.reusable() {
		return
	}
	g.clear()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spare = g
}

// view is the overlay as one reader sees it, who must close it. The zero view is empty.
type view struct {
	overlay     *overlay
	generations [2]*generation // the newer one first
}

func (o *overlay) view() view {
	o.mu.RLock()
	defer o.mu.RUnlock()
	v := view{o, [2]*generation{o.fresh, o.applying}}
	for _, g := range v.generations {
		if g != nil {
			g.readers.Add(1)
		}
	}
	return v
}

// close ends the use of the view, which is empty then.
func (v *view) close() {
	for _, g := range v.generations {
		if g != nil {
			g.readers.Add(-1)
		}
	}
	*v = view{}
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

// recent is what the overlay has for the ledger, in place of what the database has. It is valid until its view is
// closed.
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
