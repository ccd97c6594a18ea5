package storetest_test

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/storetest"
)

// broken are stores that each break one sentence of the contract, and the test (a part and words of a name) that must
// fail.
var broken = map[string]struct {
	test  string
	store func(job.Store) job.Store
}{
	"keys are forgotten": {"Create/twice",
		func(s job.Store) job.Store { return &breaks{Store: s, create: noKeys} }},
	"parents are not changed": {"Create/parent.s_counts",
		func(s job.Store) job.Store { return &breaks{Store: s, create: noParents} }},
	"epochs are not compared": {"Stale/every",
		func(s job.Store) job.Store { return &breaks{Store: s, change: anyEpoch(s)} }},
	"versions are not compared": {"Commit/expected_version",
		func(s job.Store) job.Store { return &breaks{Store: s, change: anyVersion(s)} }},
	"states are not compared": {"Tables/storetest.step",
		func(s job.Store) job.Store { return &breaks{Store: s, change: func(c *job.Change) { c.From = "" }} }},
	"claims are always kept": {"Commit/news_without_a_move",
		func(s job.Store) job.Store { return &breaks{Store: s, change: func(c *job.Change) { c.Keep = true }} }},
	"requirements are overlooked": {"Children/required", func(s job.Store) job.Store {
		return &breaks{Store: s, change: func(c *job.Change) { c.Require = job.Require{} }}
	}},
	"children are not spawned": {"Children/spawned_once",
		func(s job.Store) job.Store { return &breaks{Store: s, change: func(c *job.Change) { c.Spawn = nil }} }},
	"jobs are spawned in the end of their parent": {"Children/nothing_is_spawned",
		func(s job.Store) job.Store { return spawnsFirst{s} }},
	"changes of a call are made in another order": {"Commit/each_change",
		func(s job.Store) job.Store { return reverses{s} }},
	"messages are dropped": {"Outbox/job.s_messages",
		func(s job.Store) job.Store { return &breaks{Store: s, change: func(c *job.Change) { c.Outbox = nil }} }},
	"tasks are dropped": {"History/tasks",
		func(s job.Store) job.Store { return &breaks{Store: s, change: func(c *job.Change) { c.Tasks = nil }} }},
	"chains pass limits": {"Chain/by_a_limit",
		func(s job.Store) job.Store { return &breaks{Store: s, change: noChainLimits} }},
	"chains are never granted": {"Chain/granted",
		func(s job.Store) job.Store { return &breaks{Store: s, change: func(c *job.Change) { c.Chain = nil }} }},
	"limits are overlooked": {"Limit/a_number",
		func(s job.Store) job.Store { return &breaks{Store: s, claim: func(c *job.Claim) { c.Limits = nil }} }},
	"everything is due": {"Claim/nothing_before", func(s job.Store) job.Store {
		return &breaks{Store: s, claim: func(c *job.Claim) { c.Now = c.Now.AddDate(9, 0, 0) }}
	}},
	"more than asked for": {"Claim/at_most",
		func(s job.Store) job.Store { return &breaks{Store: s, claim: func(c *job.Claim) { c.N++ }} }},
	"holds are forgotten": {"Hold/every_scope", func(s job.Store) job.Store {
		return &breaks{Store: s, hold: func(h *job.Hold) { h.Group = "x" }}
	}},
	"lost leases are kept silent": {"Renew/gives",
		func(s job.Store) job.Store { return &breaks{Store: s, silent: true} }},
	"leases of messages are none": {"Outbox/taken_message",
		func(s job.Store) job.Store { return &breaks{Store: s, taking: func(t *job.Taking) { t.Lease = 0 }} }},
	"lists overlook the parent": {"List/every_filter",
		func(s job.Store) job.Store { return &breaks{Store: s, query: func(q *job.Query) { q.Parent = "" }} }},
	"lists of ended jobs overlook the age": {"List/ended_jobs", func(s job.Store) job.Store {
		return &breaks{Store: s, ended: func(q *job.EndedQuery) { q.Before = q.Before.Add(time.Hour) }}
	}},
	"names overlook parts of ids": {"List/beginning_or_end",
		func(s job.Store) job.Store { return &breaks{Store: s, part: func(string) string { return "" }} }},
	"numbers find others": {"Number/found",
		func(s job.Store) job.Store {
			return &breaks{Store: s, number: func(n int64) int64 { return max(1, n-1) }}
		}},
	"numbers that are none find the first": {"Number/no_job_has",
		func(s job.Store) job.Store {
			return &breaks{Store: s, number: func(n int64) int64 { return max(1, n) }}
		}},
	"peeks overlook limits": {"Claim/peek_names", func(s job.Store) job.Store {
		return &breaks{Store: s, peeked: func(f *job.Forecast) { f.Limits = nil }}
	}},
	"peeks overlook holds": {"Claim/peek_names", func(s job.Store) job.Store {
		return &breaks{Store: s, peeked: func(f *job.Forecast) { f.Hold = nil }}
	}},
	"peeks claim": {"Claim/forecasts", func(s job.Store) job.Store { return peeksClaim{s} }},
	"results end with contexts": {"Context/that_ends",
		func(s job.Store) job.Store { return leaves{s} }},
	"answers are shared":     {"Own/records", func(s job.Store) job.Store { return shares{s, map[job.ID]job.Job{}} }},
	"arguments are kept":     {"Own/arguments", func(s job.Store) job.Store { return keeps{s, map[job.ID]*string{}} }},
	"releases keep the hold": {"Hold/every_scope", func(s job.Store) job.Store { return keepsHolds{s} }},
	"numbers of others are dropped": {"Number/jobs_bring", func(s job.Store) job.Store {
		return &breaks{Store: s, create: func(c *job.Created) { c.Job.Number = 0 }}
	}},
	"taken numbers are replaced": {"Number/not_higher", func(s job.Store) job.Store {
		return &breaks{Store: s, create: func(c *job.Created) {
			if c.Job.Number < 10 {
				c.Job.Number = 0
			}
		}}
	}},
	"lists have one order": {"List/newest",
		func(s job.Store) job.Store { return &breaks{Store: s, query: func(q *job.Query) { q.Oldest = true }} }},
	"lists overlook causes": {"Tag/lists_by_tag",
		func(s job.Store) job.Store { return &breaks{Store: s, query: func(q *job.Query) { q.Causes = nil }} }},
	"tags are dropped": {"Tag/kept", func(s job.Store) job.Store {
		return &breaks{Store: s, create: func(c *job.Created) { c.Job.Tags = nil }}
	}},
	"texts become UTF-8": {"Text/of_any_bytes", func(s job.Store) job.Store {
		return &breaks{Store: s, create: func(c *job.Created) {
			c.Job.Tags = slices.Clone(c.Job.Tags)
			for i, t := range c.Job.Tags {
				c.Job.Tags[i] = strings.ToValidUTF8(t, "\ufffd")
			}
		}}
	}},
	"words are dropped": {"Word/kept", func(s job.Store) job.Store {
		return &breaks{Store: s, create: func(c *job.Created) { c.Job.Words = "" }}
	}},
	"words of a query are overlooked": {"Word/found", func(s job.Store) job.Store {
		return &breaks{Store: s, query: func(q *job.Query) { q.Words = nil }}
	}},
	"words are not replaced": {"Word/a_change", func(s job.Store) job.Store {
		return &breaks{Store: s, change: func(c *job.Change) { c.Set.Words = nil }}
	}},
	"labels are dropped": {"Label/kept", func(s job.Store) job.Store {
		return &breaks{Store: s, create: func(c *job.Created) { c.Job.Requires = nil }}
	}},
	"labels are overlooked": {"Label/a_worker_gets", func(s job.Store) job.Store {
		return &breaks{Store: s, claim: func(c *job.Claim) { c.Labels = everyLabel }}
	}},
	"peeks overlook labels": {"Label/a_peek", func(s job.Store) job.Store {
		return &breaks{Store: s, peeks: func(c *job.Claim) { c.Labels = everyLabel }}
	}},
	"chains overlook labels": {"Label/a_chain_needs", func(s job.Store) job.Store {
		return &breaks{Store: s, change: func(c *job.Change) { c.Chain = labelled(c.Chain) }}
	}},
	"chains of new jobs overlook labels": {"Label/a_new_job", func(s job.Store) job.Store {
		return &breaks{Store: s, create: func(c *job.Created) { c.Chain = labelled(c.Chain) }}
	}},
	"labels are put in order": {"Label/what_is_no_label", func(s job.Store) job.Store {
		return &breaks{Store: s, create: func(c *job.Created) { c.Job.Requires = job.Tagged(c.Job.Requires...) }}
	}},
	"bytes are not counted": {"Count/bytes", func(s job.Store) job.Store {
		return &breaks{Store: s, change: func(c *job.Change) { c.Set.Bytes = nil }}
	}},
	"holds overlook tags": {"Hold/a_hold_by_tag", func(s job.Store) job.Store {
		return &breaks{Store: s, hold: func(h *job.Hold) { h.Tag = "" }}
	}},
	"jobs are released into holds": {"Hold/required:_free", func(s job.Store) job.Store {
		return &breaks{Store: s, change: func(c *job.Change) { c.Require.Free = false }}
	}},
	"jobs are held by holds that are gone": {"Hold/required:_held", func(s job.Store) job.Store {
		return &breaks{Store: s, change: func(c *job.Change) { c.Require.Held = false }}
	}},
	"people fence workers off": {"Commit/a_person.s_loop", func(s job.Store) job.Store {
		return &breaks{Store: s, change: func(c *job.Change) { c.Keep = c.Keep && c.Epoch != 0 }}
	}},
	"entries are lost": {"Audit/what_people", func(s job.Store) job.Store {
		return &breaks{Store: s, audit: func(a []job.Audit) []job.Audit { return a[:len(a)/2] }}
	}},
	"entries are changed": {"Audit/holds", func(s job.Store) job.Store { return &breaks{Store: s, audit: otherActor} }},
	"addresses are dropped from histories": {"Audit/the_address", func(s job.Store) job.Store {
		return &breaks{Store: s, change: func(c *job.Change) { c.Address = "" }}
	}},
	"addresses are dropped from the audit log": {"Audit/the_address", func(s job.Store) job.Store {
		return &breaks{Store: s, audit: func(list []job.Audit) []job.Audit {
			return alter(list, func(a *job.Audit) { a.Address = "" })
		}}
	}},
	"addresses of holds are dropped": {"Audit/the_address", func(s job.Store) job.Store {
		return &breaks{Store: s, hold: func(h *job.Hold) { h.Address = "" }}
	}},
	"purges are overlooked": {"Purge/nothing", func(s job.Store) job.Store {
		return &breaks{Store: s, change: func(c *job.Change) { c.Purge = false }}
	}},
	"purges need no version": {"Purge/only_tombstones",
		func(s job.Store) job.Store { return &breaks{Store: s, change: anyVersion(s)} }},
	"deliveries are forgotten": {"Outbox/last_deliveries",
		func(s job.Store) job.Store { return &breaks{Store: s, settled: func(m *job.Message) { m.Tried = nil }} }},
	"attempts are not given back": {"Outbox/settled_messages_are_not_taken", func(s job.Store) job.Store {
		return &breaks{Store: s, settled: func(m *job.Message) { m.Attempts = 1 }}
	}},
	"nothing is delivered anew": {"Outbox/settled_messages_are_delivered", func(s job.Store) job.Store {
		return replaysNothing{s}
	}},
	"messages of all topics": {"Outbox/lists", func(s job.Store) job.Store {
		return &breaks{Store: s, messages: func(q *job.MessageQuery) { q.Topic = "" }}
	}},
	"age counts for nothing": {"Ageing/a_batch", func(s job.Store) job.Store {
		return &breaks{Store: s, claim: func(c *job.Claim) { c.Ageing = job.Ageing{} }}
	}},
	"there is no patience": {"Ageing/not_before", func(s job.Store) job.Store {
		return &breaks{Store: s, claim: func(c *job.Claim) { c.Ageing.Patience = 0 }}
	}},
	"lists have no bounds": {"List/page_size", func(s job.Store) job.Store {
		return &breaks{Store: s, query: func(q *job.Query) { q.Limit = max(q.Limit, 60) }}
	}},
}

// breaks alters calls on their way to a store.
type breaks struct {
	job.Store
	create func(*job.Created)
	change func(*job.Change)
	claim  func(*job.Claim)
	hold   func(*job.Hold)
	query  func(*job.Query)
	ended  func(*job.EndedQuery)
	part   func(string) string
	number func(int64) int64
	peeks  func(*job.Claim)
	peeked func(*job.Forecast)

	taking   func(*job.Taking)
	settled  func(*job.Message)
	messages func(*job.MessageQuery)
	audit    func([]job.Audit) []job.Audit
	silent   bool
}

func (b *breaks) Audit(ctx context.Context, seq int64, n int) ([]job.Audit, error) {
	list, err := b.Store.Audit(ctx, seq, n)
	if b.audit != nil {
		list = b.audit(list)
	}
	return list, err
}

func otherActor(list []job.Audit) []job.Audit {
	return alter(list, func(a *job.Audit) { a.Actor = "nobody" })
}

func alter[T any](list []T, f func(*T)) []T {
	altered := append([]T(nil), list...)
	for i := range altered {
		if f != nil {
			f(&altered[i])
		}
	}
	return altered
}

func (b *breaks) Create(ctx context.Context, jobs ...job.Created) ([]job.Job, error) {
	return b.Store.Create(ctx, alter(jobs, b.create)...)
}

func (b *breaks) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	return b.Store.Commit(ctx, alter(changes, b.change)...)
}

func (b *breaks) Claim(ctx context.Context, c job.Claim) ([]job.Job, error) {
	return b.Store.Claim(ctx, alter([]job.Claim{c}, b.claim)[0])
}

func (b *breaks) Hold(ctx context.Context, h job.Hold) ([]job.Hold, error) {
	return b.Store.Hold(ctx, alter([]job.Hold{h}, b.hold)[0])
}

func (b *breaks) Take(ctx context.Context, t job.Taking) ([]job.Message, error) {
	return b.Store.Take(ctx, alter([]job.Taking{t}, b.taking)[0])
}

func (b *breaks) Settle(ctx context.Context, messages ...job.Message) error {
	return b.Store.Settle(ctx, alter(messages, b.settled)...)
}

func (b *breaks) Messages(ctx context.Context, q job.MessageQuery) ([]job.Message, error) {
	return b.Store.Messages(ctx, alter([]job.MessageQuery{q}, b.messages)[0])
}

func (b *breaks) Numbered(ctx context.Context, kind job.Kind, n int64) (job.Job, error) {
	if b.number != nil {
		n = b.number(n)
	}
	return b.Store.Numbered(ctx, kind, n)
}

func (b *breaks) Named(ctx context.Context, part, owner string, n int) ([]job.Job, error) {
	if b.part != nil {
		part = b.part(part)
	}
	return b.Store.Named(ctx, part, owner, n)
}

func (b *breaks) ListEnded(ctx context.Context, q job.EndedQuery) (job.Page, error) {
	return b.Store.ListEnded(ctx, alter([]job.EndedQuery{q}, b.ended)[0])
}

func (b *breaks) Peek(ctx context.Context, c job.Claim, id job.ID) (job.Forecast, error) {
	f, err := b.Store.Peek(ctx, alter([]job.Claim{c}, b.peeks)[0], id)
	return alter([]job.Forecast{f}, b.peeked)[0], err
}

// peeksClaim is a store whose peeks claim.
type peeksClaim struct{ job.Store }

func (p peeksClaim) Peek(ctx context.Context, c job.Claim, id job.ID) (job.Forecast, error) {
	f, err := p.Store.Peek(ctx, c, id)
	if err == nil {
		_, err = p.Claim(ctx, c)
	}
	return f, err
}

// spawnsFirst is a store that spawns children in a commit of its own.
type spawnsFirst struct{ job.Store }

func (s spawnsFirst) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	changes = alter(changes, func(c *job.Change) {
		if len(c.Spawn) == 0 || c.Version == 0 {
			return
		}
		r, err := s.Store.Commit(ctx, job.Change{Job: c.Job, Epoch: c.Epoch, Version: c.Version, Keep: true, At: c.At,
			Spawn: c.Spawn})
		if err == nil && r[0].Err == nil {
			c.Version, c.Spawn = r[0].Job.Version, nil
		}
	})
	return s.Store.Commit(ctx, changes...)
}

// reverses is a store that makes the last change of a call first.
type reverses struct{ job.Store }

func (r reverses) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	changes = alter(changes, nil)
	slices.Reverse(changes)
	results, err := r.Store.Commit(ctx, changes...)
	slices.Reverse(results)
	return results, err
}

// leaves is a store whose claims leave their jobs claimed if the context ends meanwhile.
type leaves struct{ job.Store }

func (l leaves) Claim(ctx context.Context, c job.Claim) ([]job.Job, error) {
	jobs, err := l.Store.Claim(ctx, c)
	for range 1000 {
		runtime.Gosched()
	}
	if ctx.Err() != nil {
		return nil, &job.Error{Op: "claim", Kind: job.Unavailable, Err: ctx.Err()}
	}
	return jobs, err
}

// keepsHolds is a store whose releases change nothing.
type keepsHolds struct{ job.Store }

func (k keepsHolds) Release(ctx context.Context, _ job.Hold) ([]job.Hold, error) { return k.Holds(ctx) }

// shares is a store that answers with the same record again while its version is the same.
type shares struct {
	job.Store
	given map[job.ID]job.Job
}

func (s shares) Get(ctx context.Context, id job.ID) (job.Job, error) {
	j, err := s.Store.Get(ctx, id)
	if old, ok := s.given[id]; ok && err == nil && old.Version == j.Version {
		return old, nil
	}
	s.given[id] = j
	return j, err
}

// keeps is a store that keeps a part of the changes it is given, and reads it later.
type keeps struct {
	job.Store
	messages map[job.ID]*string
}

func (k keeps) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	for i := range changes {
		if m := changes[i].Set.Message; m != nil {
			k.messages[changes[i].Job] = m
		}
	}
	return k.Store.Commit(ctx, changes...)
}

func (k keeps) Get(ctx context.Context, id job.ID) (job.Job, error) {
	j, err := k.Store.Get(ctx, id)
	if m := k.messages[id]; m != nil {
		j.Message = *m
	}
	return j, err
}

// replaysNothing is a store that answers as if it replayed.
type replaysNothing struct{ job.Store }

func (r replaysNothing) Replay(context.Context, time.Time, ...string) ([]job.Message, error) {
	return nil, nil
}

func (b *breaks) List(ctx context.Context, q job.Query) (job.Page, error) {
	return b.Store.List(ctx, alter([]job.Query{q}, b.query)[0])
}

func (b *breaks) Renew(ctx context.Context, c job.Renewal) ([]job.Lease, error) {
	lost, err := b.Store.Renew(ctx, c)
	if b.silent {
		lost = nil
	}
	return lost, err
}

// everyLabel are the labels of the tests.
var everyLabel = []string{"gpu", "gpu=2", "zone=b"}

// labelled is a chain for a worker with every label.
func labelled(c *job.Chain) *job.Chain {
	if c == nil {
		return nil
	}
	with := *c
	with.Labels = everyLabel
	return &with
}

func noKeys(c *job.Created)    { c.Job.Key = "" }
func noParents(c *job.Created) { c.Job.Parent = "" }

func noChainLimits(c *job.Change) {
	if c.Chain != nil {
		c.Chain = &job.Chain{Worker: c.Chain.Worker, Lease: c.Chain.Lease}
	}
}

func anyEpoch(s job.Store) func(*job.Change) {
	return func(c *job.Change) {
		if j, err := s.Get(context.Background(), c.Job); err == nil && c.Epoch != 0 {
			c.Epoch = j.Epoch
		}
	}
}

func anyVersion(s job.Store) func(*job.Change) {
	return func(c *job.Change) {
		if j, err := s.Get(context.Background(), c.Job); err == nil && c.Version != 0 {
			c.Version = j.Version
		}
	}
}

const breakVariable = "STORETEST_BREAK"

// TestBroken is the part of a control that runs in a process of its own, where it is to fail. Without its variable
// there is nothing to break and no test fails.
func TestBroken(t *testing.T) {
	b, ok := broken[os.Getenv(breakVariable)]
	if !ok {
		return
	}
	storetest.Run(t, func(*testing.T) (job.Store, func() job.Store) { return b.store(mem.New()), nil })
}

// The controls: every broken store fails, in the test that speaks of what it breaks.
func TestContractSeesBrokenStores(t *testing.T) {
	for broke, b := range broken {
		t.Run(broke, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			part, name, _ := strings.Cut(b.test, "/")
			run := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestBroken$/^"+part+"$/"+name)
			run.Env = append(os.Environ(), breakVariable+"="+broke)
			out, err := run.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestBroken/"+part+"/") {
				t.Errorf("%v: the contract's test %s passes or ends otherwise:\n%s", err, b.test, out)
			}
		})
	}
}
