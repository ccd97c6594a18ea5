package agent

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
)

// codeCapacity is the cause of a payload that waits for memory or cores.
const codeCapacity = "capacity"

// Between checks of a payload that waits for capacity, and after which one that did not ask is taken for absent: held,
// or ended.
const (
	lookEvery = 2 * time.Second
	absent    = 10 * time.Second
)

// need is what a payload may use.
type need struct {
	memory int64
	cores  float64
}

// capacity records which memory and cores are promised to payloads that run, and which payloads wait for some: first
// come, first served within a priority. No one passes the first in line, so none starves. It is kept in memory: nothing
// runs when an agent starts.
type capacity struct {
	total need // zero fields: no bound

	mu   sync.Mutex // guards the rest
	used need
	held map[job.ID]need
	line []waiter
}

// waiter is a payload in line. The lowest priority number goes first, then the oldest.
type waiter struct {
	id       job.ID
	priority int
	number   int64
	seen     time.Time
}

func newCapacity(total need) *capacity { return &capacity{total: total, held: map[job.ID]need{}} }

// take promises n to a payload, or puts it into the line and reports what it waits for.
func (r *capacity) take(j *job.Job, n need, now time.Time) *job.Blocker {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leave(j.ID)
	r.line = slices.DeleteFunc(r.line, func(w waiter) bool { return now.Sub(w.seen) > absent })
	w := waiter{j.ID, j.Priority, j.Number, now}
	at, _ := slices.BinarySearchFunc(r.line, w, func(a, b waiter) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.number, b.number))
	})
	sentence := ""
	switch {
	case n == need{}:
	case at > 0:
		sentence = fmt.Sprintf("%d before it wait for memory or cores of the agent", at)
	case r.total.memory > 0 && r.used.memory+n.memory > r.total.memory:
		sentence = fmt.Sprintf("it may use %d MiB of memory, and %d of the agent's %d MiB are free", n.memory>>20,
			(r.total.memory-r.used.memory)>>20, r.total.memory>>20)
	case r.total.cores > 0 && r.used.cores+n.cores > r.total.cores:
		sentence = fmt.Sprintf("it may use %g cores, and %g of the agent's %g are free", n.cores,
			r.total.cores-r.used.cores, r.total.cores)
	}
	if sentence != "" {
		r.line = slices.Insert(r.line, at, w)
		return &job.Blocker{
			Code: codeCapacity, Sentence: sentence, Until: now.Add(lookEvery), Holder: "payloads that run",
			Remedy: "nothing: it starts when one of them ends",
		}
	}
	r.held[j.ID] = n
	r.used.memory += n.memory
	r.used.cores += n.cores
	return nil
}

// leave takes a payload out of the line. The caller holds mu.
func (r *capacity) leave(id job.ID) {
	r.line = slices.DeleteFunc(r.line, func(w waiter) bool { return w.id == id })
}

// ended takes a payload that never ran out of the line.
func (r *capacity) ended(id job.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leave(id)
}

// give gives back what a payload was promised. It may be called for one that was promised nothing.
func (r *capacity) give(id job.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, ok := r.held[id]
	if !ok {
		return
	}
	delete(r.held, id)
	r.used.memory -= n.memory
	if r.used.cores -= n.cores; len(r.held) == 0 {
		r.used = need{} // no rest of rounding
	}
}

// first gives the payload whose turn it is.
func (r *capacity) first() (job.ID, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.line) == 0 {
		return "", false
	}
	return r.line[0].id, true
}

// never reports whether a payload could not run even if nothing else did, and why.
func (r *capacity) never(n need) (why string) {
	switch {
	case r.total.memory > 0 && n.memory > r.total.memory:
		return fmt.Sprintf("it may use %d MiB of memory, and the agent has %d MiB for payloads", n.memory>>20,
			r.total.memory>>20)
	case r.total.cores > 0 && n.cores > r.total.cores:
		return fmt.Sprintf("it may use %g cores, and the agent has %g for payloads", n.cores, r.total.cores)
	}
	return ""
}
