package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// What makes a job stuck.
const (
	StuckSlow     = "slow"      // in its state for longer than usual
	StuckOverdue  = "overdue"   // its time in the state is up, and it has not moved
	StuckSilent   = "silent"    // its worker has not reported since its lease expired
	StuckHeld     = "held"      // held for more than a week
	StuckBatch    = "old-batch" // a batch of more than a day
	StuckNoWorker = "no-worker" // no live worker has taken jobs of its state for more than five minutes
)

// Bounds of one check.
const (
	stuckRead     = 10_000 // open jobs of a kind that one check reads, the oldest first
	stuckRows     = 100    // rows by default
	stuckReasons  = 3      // reasons from Why in one row
	stuckHeld     = 7 * 24 * time.Hour
	stuckBatch    = 24 * time.Hour
	stuckNoWorker = 5 * time.Minute
	stuckGrace    = 10 * time.Second // time for the sweep to move overdue jobs
)

// StuckQuery asks for stuck jobs.
type StuckQuery struct {
	Kinds  []job.Kind // empty: all kinds
	Factor float64    // how many times the usual is too long. Defaults to 1
	Limit  int        // rows, and abandoned messages. Defaults to 100, at most 1000
}

// StuckReport is what a search for stuck jobs found.
type StuckReport = api.Stuck

// StuckJob is one row.
type StuckJob = api.StuckJob

// candidate is a row with its sort key.
type candidate struct {
	StuckJob
	worst float64 // largest multiple of a limit
}

// StuckReason states why a job counts as stuck.
type StuckReason = api.StuckReason

// Stuck returns the open jobs that stay longer than usual in their state, are overdue or held for long, or whose lease
// has expired, the worst first, and the abandoned messages. The work of one call is bounded; Cut states what was left
// out.
func (e *Explainer) Stuck(ctx context.Context, q StuckQuery) (StuckReport, error) {
	if q.Factor <= 0 {
		q.Factor = 1
	}
	if q.Limit <= 0 {
		q.Limit = stuckRows
	}
	q.Limit = min(q.Limit, 1000)
	kinds := e.engine.Kinds()
	for _, k := range q.Kinds {
		if e.engine.Work(k) == nil {
			return StuckReport{}, job.Errorf(job.Invalid, "stuck", "", "there is no kind %q (known: %s)", k, e.kinds())
		}
	}
	if len(q.Kinds) > 0 {
		kinds = slices.Compact(slices.Sorted(slices.Values(q.Kinds)))
	}
	s := &stuck{explainer: e, factor: q.Factor, at: e.engine.Clock().Now()}
	s.report = StuckReport{At: s.at, Stuck: []StuckJob{}, Messages: []job.Message{}}
	var err error
	if s.holds, err = e.store.Holds(ctx); err != nil {
		return s.report, err
	}
	for _, k := range kinds {
		if err := s.scan(ctx, k); err != nil {
			return s.report, err
		}
	}
	r := &s.report
	r.Found = len(s.rows)
	slices.SortStableFunc(s.rows, func(a, b candidate) int { return cmp.Compare(b.worst, a.worst) })
	for i := range s.rows[:min(len(s.rows), q.Limit)] {
		if err := s.explain(ctx, &s.rows[i].StuckJob); err != nil {
			return *r, err
		}
		r.Stuck = append(r.Stuck, s.rows[i].StuckJob)
	}
	return *r, s.messages(ctx, kinds, q.Limit)
}

// stuck is one check.
type stuck struct {
	explainer *Explainer
	factor    float64
	at        time.Time
	holds     []job.Hold
	report    StuckReport
	rows      []candidate
	taken     map[job.KindState]bool // states whose jobs a live worker takes
}

// scan checks the open jobs of a kind, the oldest first.
func (s *stuck) scan(ctx context.Context, k job.Kind) error {
	usual, err := s.explainer.Usual(ctx, k)
	if err != nil {
		return err
	}
	open := false
	q := job.Query{Kinds: []job.Kind{k}, Ended: &open, Oldest: true, Limit: 1000}
	for n := 0; ; {
		page, err := s.explainer.store.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			s.check(ctx, &page.Jobs[i], usual[page.Jobs[i].State])
		}
		n += len(page.Jobs)
		s.report.Looked += len(page.Jobs)
		if page.Next == "" {
			return nil
		}
		if n >= stuckRead {
			s.report.Cut = append(s.report.Cut, fmt.Sprintf("only the oldest %d open jobs of %s were checked", n, k))
			return nil
		}
		q.After = page.Next
	}
}

// check adds a row if anything about the job took too long.
func (s *stuck) check(ctx context.Context, j *job.Job, u Usual) {
	row := candidate{StuckJob: StuckJob{
		Job: j.ID, Kind: j.Kind, State: j.State, Group: j.Group, Owner: j.Owner, Worker: j.Worker, Since: j.Entered,
		Seconds: int64(s.at.Sub(j.Entered) / time.Second), Usual: int64(u.Limit / time.Second), Basis: u.basis(),
	}}
	add := func(code string, took, limit time.Duration, sentence string) {
		if took > limit {
			row.Reasons = append(row.Reasons, StuckReason{Code: code, Sentence: sentence})
			row.worst = max(row.worst, float64(took)/float64(limit))
		}
	}
	stay := s.at.Sub(j.Entered)
	add(StuckSlow, stay, max(time.Duration(s.factor*float64(u.Limit)), usualFloor),
		fmt.Sprintf("in %s for %s, usual is up to %s", j.State, rounded(stay), rounded(u.Limit)))
	if !j.Expires.IsZero() {
		late := s.at.Sub(j.Expires)
		add(StuckOverdue, late, stuckGrace, fmt.Sprintf("its time in %s was up %s ago", j.State, rounded(late)))
	}
	if j.Claimed() {
		late := s.at.Sub(j.Until)
		add(StuckSilent, late, stuckGrace,
			fmt.Sprintf("the lease of worker %s expired %s ago", j.Worker, rounded(late)))
	}
	if b := s.noWorker(ctx, j, stay); b != nil {
		add(StuckNoWorker, s.at.Sub(b.Since), stuckNoWorker, b.Sentence)
	}
	if held := s.held(j); held > 0 {
		add(StuckHeld, held, stuckHeld, fmt.Sprintf("held for %s", rounded(held)))
	}
	if IsBatch(j.Kind) {
		age := s.at.Sub(j.Created)
		add(StuckBatch, age, stuckBatch, fmt.Sprintf("the batch is %s old", rounded(age)))
	}
	if len(row.Reasons) > 0 {
		s.rows = append(s.rows, row)
	}
}

// noWorker is [Explainer.noWorker] for a job that is due and has been in its state for long enough.
func (s *stuck) noWorker(ctx context.Context, j *job.Job, stay time.Duration) *job.Blocker {
	w, at := s.explainer.engine.Work(j.Kind), job.KindState{Kind: j.Kind, State: j.State}
	if w == nil || stay <= stuckNoWorker || j.Claimed() || j.Due.After(s.at) || s.taken[at] {
		return nil
	}
	b := s.explainer.noWorker(ctx, w, j)
	if s.taken == nil {
		s.taken = map[job.KindState]bool{}
	}
	s.taken[at] = b == nil
	return b
}

// held returns how long a job has been held: by its state, or by the oldest hold on it.
func (s *stuck) held(j *job.Job) time.Duration {
	longest := time.Duration(0)
	if w := s.explainer.engine.Work(j.Kind); w != nil {
		if stage, _ := w.Life.Stage(j.State); stage.Kind == lifecycle.Wait && j.Expires.IsZero() {
			longest = s.at.Sub(j.Entered)
		}
	}
	for _, h := range s.holds {
		if h.On(s.at) && h.Matches(j) {
			since := h.Since
			if j.Created.After(since) {
				since = j.Created
			}
			longest = max(longest, s.at.Sub(since))
		}
	}
	return longest
}

// explain adds the first reasons of Why to a row.
func (s *stuck) explain(ctx context.Context, row *StuckJob) error {
	x, err := s.explainer.Why(ctx, row.Job, time.Time{})
	if kind := job.KindOf(err); kind == job.Unavailable || ctx.Err() != nil {
		return err
	}
	row.Blockers = append([]job.Blocker{}, x.Blockers[:min(len(x.Blockers), stuckReasons)]...)
	if err != nil && len(row.Blockers) == 0 { // one record that cannot be explained must not hide the others
		row.Blockers = append(row.Blockers, job.Blocker{Code: "error", Sentence: err.Error(), Since: row.Since})
	}
	return nil
}

// messages adds the abandoned messages of jobs of the kinds.
func (s *stuck) messages(ctx context.Context, kinds []job.Kind, limit int) error {
	abandoned := job.Abandoned
	all, err := s.explainer.store.Messages(ctx, job.MessageQuery{Settled: &abandoned, Limit: 1000})
	if err != nil {
		return err
	}
	if len(all) == 1000 {
		s.report.Cut = append(s.report.Cut, "only the newest 1000 abandoned messages were checked")
	}
	for _, m := range all {
		if len(s.report.Messages) == limit {
			s.report.Cut = append(s.report.Cut, fmt.Sprintf("only %d abandoned messages are shown", limit))
			return nil
		}
		if len(kinds) < len(s.explainer.engine.Kinds()) {
			j, err := s.explainer.store.Get(ctx, m.Job)
			if err != nil || !slices.Contains(kinds, j.Kind) {
				continue
			}
		}
		m.Body = nil
		s.report.Messages = append(s.report.Messages, m)
	}
	return nil
}

// basis states the source of a limit.
func (u Usual) basis() string {
	if u.Known {
		return fmt.Sprintf("p95 of %d stays", u.Stays)
	}
	return "default, because only " + counted(int(u.Stays), "stay was", "stays were") + " measured"
}

// rounded rounds a duration for a message.
func rounded(d time.Duration) time.Duration {
	if d > time.Minute {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}
