package sqlite

import "github.com/stagepost/stagepost/job"

// entry is a record in the cache of the commit loop.
type entry struct {
	n    int64 // row number
	last int64 // number of its last history entry
	job  job.Job

	made, data uint32 // checksums of its parts
	open       bool   // the open record of the log has it

	in   int64 // number of the generation that has its copy, 0: of none
	slot int   // of its copy there
}

// cache keeps the records that the loop used last, in two generations. When the young one is full, the old one is
// dropped and the young one becomes the old one. Only the loop uses it.
type cache struct {
	young, old map[job.ID]*entry
	size       int
	ended      []job.ID // by the operations since age
	last       *entry   // that was found last, or nil: an operation asks for its record several times
	free       []*entry // of records that have ended: their memory is used again
}

const mostFree = mostOps

func newCache(size int) *cache {
	return &cache{young: map[job.ID]*entry{}, old: map[job.ID]*entry{}, size: size}
}

func (c *cache) get(id job.ID) *entry {
	if c.last != nil && c.last.job.ID == id {
		return c.last
	}
	e := c.young[id]
	if e == nil {
		if e = c.old[id]; e == nil {
			return nil
		}
		c.young[id] = e
	}
	c.last = e
	return e
}

// entry returns memory for a new record.
func (c *cache) entry() *entry {
	last := len(c.free) - 1
	if last < 0 {
		return new(entry)
	}
	e := c.free[last]
	c.free = c.free[:last]
	return e
}

func (c *cache) put(e *entry) { c.young[e.job.ID], c.last = e, e }

// changed records a new state of a record: one that has ended is not used again soon.
func (c *cache) changed(e *entry) {
	if e.job.Ended {
		c.ended = append(c.ended, e.job.ID)
	}
}

// age drops records that have ended, and the old generation if the young one is full. It is called between
// operations, and with a log in front between its records: within one, a record stays.
func (c *cache) age() {
	c.last = nil
	for _, id := range c.ended {
		if e := c.young[id]; e != nil && len(c.free) < mostFree {
			c.free = append(c.free, e)
		}
		delete(c.young, id)
		delete(c.old, id)
	}
	c.ended = c.ended[:0]
	if len(c.young) > c.size {
		c.old, c.young = c.young, make(map[job.ID]*entry, c.size)
	}
}

// drop removes a record that was purged.
func (c *cache) drop(id job.ID) {
	c.last = nil
	delete(c.young, id)
	delete(c.old, id)
}

func (c *cache) clear() {
	c.last = nil
	c.young, c.old, c.ended = map[job.ID]*entry{}, map[job.ID]*entry{}, nil
}
