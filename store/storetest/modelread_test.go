package storetest_test

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
)

func (m *model) Get(ctx context.Context, id job.ID) (job.Job, error) {
	return do(m, ctx, func() (job.Job, error) { return m.get(id) })
}

func (m *model) Numbered(ctx context.Context, kind job.Kind, n int64) (job.Job, error) {
	return do(m, ctx, func() (job.Job, error) {
		for _, j := range m.jobs {
			if j.Kind == kind && j.Number == n {
				return copied(j), nil
			}
		}
		return job.Job{}, job.Errorf(job.NotFound, "find", "", "no %s has number %d", kind, n)
	})
}

// ordered returns all jobs in the order of creation.
func (m *model) ordered() []job.ID {
	return slices.SortedFunc(maps.Keys(m.jobs), func(a, b job.ID) int { return cmp.Compare(m.made[a], m.made[b]) })
}

func (m *model) Named(ctx context.Context, part, owner string, n int) ([]job.Job, error) {
	return do(m, ctx, func() ([]job.Job, error) {
		var found []job.Job
		all := m.ordered()
		slices.Reverse(all)
		for i, id := range all {
			fits := strings.HasPrefix(string(id), part) || i < 10_000 && strings.HasSuffix(string(id), part)
			if j := m.jobs[id]; fits && (owner == "" || owner == j.Owner) && len(found) < min(n, 1000) {
				found = append(found, copied(j))
			}
		}
		return found, nil
	})
}

// mostLarge is how many bytes of specs and data an answer has at most before its last job.
const mostLarge = 8 << 20

// List has the number of a page's last job in the order of creation as its cursor.
func (m *model) List(ctx context.Context, q job.Query) (job.Page, error) {
	return do(m, ctx, func() (job.Page, error) {
		after, err := strconv.ParseInt(cmp.Or(q.After, "0"), 10, 64)
		if err != nil {
			return job.Page{}, job.Errorf(job.Invalid, "list", "", "bad cursor %q", q.After)
		}
		if err := q.Check(); err != nil {
			return job.Page{}, err
		}
		all := m.ordered()
		if !q.Oldest {
			slices.Reverse(all)
		}
		var page job.Page
		large := 0
		for _, id := range all {
			j, made := m.jobs[id], m.made[id]
			passed := q.After != "" && (q.Oldest && made <= after || !q.Oldest && made >= after)
			switch {
			case passed || !q.Matches(&j):
			case len(page.Jobs) == q.PageSize(), large >= mostLarge:
				page.Next = strconv.FormatInt(m.made[page.Jobs[len(page.Jobs)-1].ID], 10)
				return page, nil
			default:
				page.Jobs = append(page.Jobs, copied(j))
				large += len(j.Spec) + len(j.Data)
			}
		}
		return page, nil
	})
}

func (m *model) Count(ctx context.Context) ([]job.Tally, error) {
	return do(m, ctx, func() ([]job.Tally, error) {
		counts := map[job.Tally]job.Tally{} // by kind, state and group
		for _, j := range m.jobs {
			key := job.Tally{Kind: j.Kind, State: j.State, Group: j.Group}
			t, ok := counts[key]
			if !ok {
				t = key
			}
			t.Jobs++
			t.Bytes += min(j.Bytes, 1<<63-1-t.Bytes)
			if j.Claimed() {
				t.Claimed++
			}
			counts[key] = t
		}
		return slices.Collect(maps.Values(counts)), nil
	})
}

// ListEnded has the number of the page's last job as its cursor, as List.
func (m *model) ListEnded(ctx context.Context, q job.EndedQuery) (job.Page, error) {
	return do(m, ctx, func() (page job.Page, err error) {
		after, err := strconv.ParseInt(cmp.Or(q.After, "0"), 10, 64)
		if err != nil {
			return page, job.Errorf(job.Invalid, "list", "", "bad cursor %q", q.After)
		}
		for _, id := range m.ordered() {
			j, made := m.jobs[id], m.made[id]
			switch {
			case made <= after || !q.Matches(&j):
			case len(page.Jobs) == q.PageSize():
				page.Next = strconv.FormatInt(m.made[page.Jobs[len(page.Jobs)-1].ID], 10)
				return page, nil
			default:
				page.Jobs = append(page.Jobs, copied(j))
			}
		}
		return page, nil
	})
}

func (m *model) History(ctx context.Context, id job.ID, seq int64, n int) ([]job.Event, error) {
	return do(m, ctx, func() ([]job.Event, error) {
		if _, err := m.get(id); err != nil {
			return nil, err
		}
		var page []job.Event
		for _, e := range m.history[id] {
			if e.Seq > seq && (n == 0 || len(page) < n) {
				page = append(page, e)
			}
		}
		return page, nil
	})
}

func (m *model) Tasks(ctx context.Context, id job.ID) ([]job.Task, error) {
	return do(m, ctx, func() ([]job.Task, error) {
		var all []job.Task
		for _, t := range m.tasks[id] {
			all = append(all, copiedTask(t))
		}
		slices.SortFunc(all, func(a, b job.Task) int { return strings.Compare(a.Name, b.Name) })
		return all, nil
	})
}

// post adds messages whose keys are new.
func (m *model) post(messages []job.Message) {
	for _, one := range messages {
		if _, ok := m.messages[one.Key]; !ok {
			set(m, &m.posted, m.posted+1)
			one.Number = m.posted
			assign(m, m.messages, one.Key, copiedMessage(one))
		}
	}
}

// chosen returns copies of the messages that match, sorted.
func (m *model) chosen(match func(*job.Message) bool, order func(a, b job.Message) int) (all []job.Message) {
	for _, one := range m.messages {
		if match(&one) {
			all = append(all, copiedMessage(one))
		}
	}
	slices.SortFunc(all, order)
	return all
}

func (m *model) Take(ctx context.Context, t job.Taking) ([]job.Message, error) {
	return do(m, ctx, func() ([]job.Message, error) {
		due := m.chosen(func(one *job.Message) bool {
			return one.Settled == job.Pending && !one.Due.After(t.Now) && t.Selects(one.Topic)
		}, func(a, b job.Message) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Number, b.Number)) })
		due = due[:max(0, min(t.N, len(due)))]
		for i := range due {
			due[i].Attempts++
			due[i].Due = t.Now.Add(t.Lease)
			assign(m, m.messages, due[i].Key, copiedMessage(due[i]))
		}
		return due, nil
	})
}

func (m *model) Settle(ctx context.Context, messages ...job.Message) error {
	_, err := do(m, ctx, func() (bool, error) {
		if err := attemptsOf(messages, nil); err != nil {
			return false, err
		}
		for _, s := range messages {
			one, ok := m.messages[s.Key]
			if !ok || one.Settled != job.Pending {
				continue
			}
			one.Settled, one.Error, one.Due, one.Attempts = s.Settled, s.Error, s.Due, s.Attempts
			if s.Tried != nil {
				one.Tried = s.Tried[max(0, len(s.Tried)-job.MostTried):]
			}
			assign(m, m.messages, s.Key, copiedMessage(one))
		}
		return true, nil
	})
	return err
}

func (m *model) Messages(ctx context.Context, q job.MessageQuery) ([]job.Message, error) {
	return do(m, ctx, func() ([]job.Message, error) {
		all := m.chosen(q.Matches, func(a, b job.Message) int { return cmp.Compare(b.Number, a.Number) })
		return all[:min(q.PageSize(), len(all))], nil
	})
}

func (m *model) Replay(ctx context.Context, now time.Time, keys ...string) ([]job.Message, error) {
	return do(m, ctx, func() ([]job.Message, error) {
		var again []job.Message
		for i, key := range keys {
			if slices.Contains(keys[:i], key) {
				continue
			}
			one, ok := m.messages[key]
			switch {
			case !ok:
				return nil, job.Errorf(job.NotFound, "replay", "", "no message %q", key)
			case one.Settled == job.Pending:
				return nil, job.Errorf(job.Conflict, "replay", one.Job, "message %q is pending", key)
			}
			one.Settled, one.Attempts, one.Due = job.Pending, 0, now
			assign(m, m.messages, key, one)
			again = append(again, copiedMessage(one))
		}
		return again, nil
	})
}

func (m *model) Note(ctx context.Context, a job.Audit) error {
	_, err := do(m, ctx, func() (bool, error) {
		if a.Event == "" || a.Actor == "" {
			return false, job.Errorf(job.Invalid, "note", a.Job, "an entry needs an event and an actor")
		}
		m.note(a)
		return true, nil
	})
	return err
}

// note appends an entry to the audit log.
func (m *model) note(a job.Audit) {
	a.At, a.Seq = a.At.Truncate(time.Microsecond), int64(len(m.audit))+1
	var prev job.Hash
	if n := len(m.audit); n > 0 {
		prev = m.audit[n-1].Hash
	}
	a.Seal(prev)
	set(m, &m.audit, append(m.audit, a))
}

func (m *model) Audit(ctx context.Context, seq int64, n int) ([]job.Audit, error) {
	return do(m, ctx, func() ([]job.Audit, error) {
		var all []job.Audit
		for _, a := range m.audit {
			if n >= 0 && a.Seq > seq || n < 0 && (seq <= 0 || a.Seq < seq) {
				all = append(all, a)
			}
		}
		if n >= 0 {
			return all[:min(n, len(all))], nil
		}
		return all[max(0, len(all)+n):], nil
	})
}

func (m *model) AuditHolds(ctx context.Context, seq int64, n int) ([]job.Audit, error) {
	return do(m, ctx, func() ([]job.Audit, error) {
		var all []job.Audit
		for _, a := range m.audit {
			if a.Seq > seq && a.OfHold() && len(all) < n {
				a.Prev = job.Hash{}
				all = append(all, a)
			}
		}
		return all, nil
	})
}
