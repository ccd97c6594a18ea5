package zookeeper

import (
	"bytes"
	"slices"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/rules"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// writer makes the operations of a multi of the writes of an operation.
type writer struct {
	root
	r    *replica
	ops  []session.Op
	each []int          // the index of the first operation of each job and message; the last one has the rest
	made map[string]int // of nodes that are created by this multi, or set: the index of the operation
	err  error          // a text cannot be written
}

// put creates a node or sets it, if it exists before the multi. A node is written once.
func (w *writer) put(path string, data []byte, exists bool) {
	if replaces(data) {
		w.err = job.Errorf(job.Invalid, "commit", "", "a text for the node %s is not UTF-8", path)
	}
	op := session.Create(path, data)
	if exists {
		op = session.Set(path, data, session.AnyVersion)
	}
	if i, twice := w.made[path]; twice {
		w.ops[i] = op
		return
	}
	w.made[path] = len(w.ops)
	w.ops = append(w.ops, op)
}

// operations returns what a multi writes. c has the nodes of another system that show the records; nil: none do. A text
// that is not UTF-8 is Invalid, because nodes have JSON.
func operations(at root, r *replica, of *rules.Writes, c *Changes) (*writer, error) {
	shown := map[job.ID]*Shown{}
	if c != nil {
		for _, one := range c.Records {
			if one.Job != nil {
				shown[one.Job.ID] = &one.Shown
			}
		}
	}
	w := &writer{root: at, r: r, made: map[string]int{}}
	rows := r.counters.Rows
	events := map[job.ID][]job.Event{}
	fresh := map[job.ID]int64{}
	for _, jw := range of.Jobs {
		w.each = append(w.each, len(w.ops))
		if jw.After == nil {
			w.purge(jw.Before)
			continue
		}
		id := jw.After.ID
		one := r.jobs[id]
		if jw.Before == nil {
			rows++
			fresh[id] = rows
		}
		row := fresh[id]
		if one != nil {
			row = one.row
		}
		var node Shown
		if s := shown[id]; s != nil {
			node = *s
		} else if one != nil {
			node.Node, node.Elsewhere = one.node, one.elsewhere
		}
		w.put(w.job(id), encodeJob(row, jw.After, node.Node, node.Elsewhere), one != nil)
		if jw.Event != nil {
			events[id] = append(events[id], *jw.Event)
			w.event(id, one, events[id])
		}
		for i := range jw.Tasks {
			t := &jw.Tasks[i]
			exists := one != nil && one.tasks[t.Name].Name != ""
			w.put(w.task(id, t.Name), encodeTask(t), exists)
		}
	}
	for i := range of.Messages {
		m := &of.Messages[i]
		w.each = append(w.each, len(w.ops))
		w.put(w.message(m.Number), encodeMessage(m), r.messages[m.Key] != nil)
	}
	w.rest(of, rows)
	return w, w.err
}

// parts returns the operations of each job and message, for multis of their own.
func (w *writer) parts() [][]session.Op {
	all := make([][]session.Op, len(w.each))
	for i, from := range w.each {
		to := len(w.ops)
		if i+1 < len(w.each) {
			to = w.each[i+1]
		}
		all[i] = w.ops[from:to]
	}
	return all
}

// replaces reports whether the encoder replaced bytes of a text that is not UTF-8: by the escape \ufffd, which it uses
// for nothing else.
func replaces(data []byte) bool {
	for {
		at := bytes.IndexByte(data, '\\')
		if at < 0 {
			return false
		}
		if bytes.HasPrefix(data[at:], []byte(`\ufffd`)) {
			return true
		}
		data = data[at+2:] // the escape of another character
	}
}

// event writes the node of a history that has the last of the events, which are added to those of a record.
func (w *writer) event(id job.ID, one *record, added []job.Event) {
	var before []job.Event
	if one != nil {
		before = one.history
	}
	all := append(slices.Clip(before), added...)
	p := part(int64(len(all)))
	w.put(w.history(id, p), encodeEvents(all[p*perPart:]), int64(len(before)) > p*perPart)
}

// purge removes the nodes of a job and of its messages.
func (w *writer) purge(j *job.Job) {
	one := w.r.jobs[j.ID]
	remove := func(path string) { w.ops = append(w.ops, session.Delete(path, session.AnyVersion)) }
	for _, key := range w.r.letters[j.ID] {
		remove(w.message(w.r.messages[key].Number))
	}
	for name := range one.tasks {
		remove(w.task(j.ID, name))
	}
	for p := int64(0); p*perPart < int64(len(one.history)); p++ {
		remove(w.history(j.ID, p))
	}
	remove(w.job(j.ID))
}

// rest writes what is no job and no message.
func (w *writer) rest(of *rules.Writes, rows int64) {
	for _, n := range of.Numbers() {
		w.put(w.number(n.Kind), encode(n.Number), w.r.kinds[n.Kind])
	}
	for i := range of.Audits {
		w.put(w.audited(of.Audits[i].Seq), encodeAudit(&of.Audits[i]), false)
	}
	holds := w.r.ledger.Holds()
	held := func(s job.Scope) bool {
		return slices.ContainsFunc(holds, func(h job.Hold) bool { return h.Scope == s })
	}
	for i := range of.Put {
		h := &of.Put[i]
		w.put(w.hold(h.Scope), encode(h), held(h.Scope))
	}
	for _, s := range of.Released {
		w.ops = append(w.ops, session.Delete(w.hold(s), session.AnyVersion))
	}
	c := countersNode{of.Counters.Posted, rows}
	if c != w.r.counters {
		w.put(w.counters(), encode(&c), true)
	}
}
