// Package audit reads the copies of archives again and compares them with their digests: in each storage location the
// one that is due for the longest time first, at a bounded rate. A fault is reported and healed from a good copy.
//
// The results are in the catalog after a few checks, and a fault is at once, so that a restart continues. A location
// that cannot be read implies nothing about its copies, and does not keep the others from being checked.
//
// A storage root of OCFL is checked like a location: a copy is then a version of an object.
package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/format/ocfl"
)

// Options of [New]. Catalog, Copies and Report are required.
type Options struct {
	Catalog *catalog.Catalog
	Copies  *copies.Store
	// Objects gives the storage roots of OCFL by name; nil: there are none.
	Objects func() map[string]*ocfl.Root
	// Report enters a fault, and what became of it, in the audit log. It may be called twice for one fault around a
	// crash.
	Report func(ctx context.Context, event, object, note string) error
	// Pace waits for the bytes that were read. Defaults to no wait.
	Pace  func(ctx context.Context, n int) error
	Now   func() time.Time // defaults to time.Now
	Log   *slog.Logger     // defaults to no log
	Agent string           // of events; defaults to stagepost
	// Leads reports whether Run starts passes here, not in another server on the same catalog. It is called before each
	// pass. Defaults to always.
	Leads func() bool
	// Requests is the time between queries for checks that other servers on the catalog requested. Defaults to 5 s.
	Requests time.Duration
}

// What Report is called with.
const (
	EventFault  = "archive-fixity-fault"
	EventSound  = "archive-fixity-sound"  // a fault is gone
	EventHealed = "archive-fixity-healed" // a good copy replaces the damaged one
	EventLost   = "archive-fixity-lost"   // there is no good copy to heal from
)

const (
	again      = time.Hour        // between queries for copies that are due
	afterFault = 10 * time.Minute // until a location that could not be read is tried again
	recalling  = 4 * time.Hour    // until a copy is tried again that a slow location recalls
	takeOver   = time.Minute      // between queries whether this server leads
	requests   = 5 * time.Second  // between queries for checks that other servers on the catalog requested
)

// Checker checks the copies of one catalog.
type Checker struct {
	o    Options
	poke chan struct{}
	once sync.Mutex // held by a pass

	seen map[string]time.Time // by location: the beginning of the requested check that Run found last
}

// New makes a checker.
func New(o Options) *Checker {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Agent == "" {
		o.Agent = "stagepost"
	}
	if o.Objects == nil {
		o.Objects = func() map[string]*ocfl.Root { return nil }
	}
	if o.Requests <= 0 {
		o.Requests = requests
	}
	if o.Leads == nil {
		o.Leads = func() bool { return true }
	}
	return &Checker{o: o, poke: make(chan struct{}, 1), seen: map[string]time.Time{}}
}

// Start requests that all copies in the given locations (nil: all) are checked now. It returns when the request is on
// disk; Run does the work, also after a restart.
func (c *Checker) Start(ctx context.Context, locations []string) error {
	if locations == nil {
		locations = c.names()
	}
	for _, name := range locations {
		if !slices.Contains(c.names(), name) {
			continue // the status gives the reason
		}
		if err := c.o.Catalog.RequestCheck(ctx, name, c.o.Now()); err != nil {
			return err
		}
	}
	select {
	case c.poke <- struct{}{}:
	default:
	}
	return nil
}

// Run checks what is due until ctx ends. The locations do not wait for each other.
func (c *Checker) Run(ctx context.Context) error {
	ends := make(chan ended)
	running, asked, next := map[string]bool{}, map[string]bool{}, map[string]time.Time{} // by location
	query := time.NewTicker(c.o.Requests)
	defer query.Stop()
	for {
		pause, names := again, c.names()
		if !c.o.Leads() {
			pause, names = takeOver, nil
		}
		for _, name := range names {
			wait := next[name].Sub(c.o.Now())
			switch {
			case running[name]:
			case wait > 0:
				pause = min(pause, wait)
			default:
				running[name] = true
				c.requested(ctx, name) // the pass carries it out
				go func() {
					_, err := c.location(ctx, name)
					ends <- ended{name, err}
				}()
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case e := <-ends:
			delete(running, e.name)
			if next[e.name] = c.o.Now().Add(c.after(ctx, e)); asked[e.name] {
				delete(next, e.name)
			}
			delete(asked, e.name)
		case <-c.poke:
			clear(next)
			maps.Copy(asked, running)
		case <-timer.C:
		case <-query.C:
			for _, name := range names {
				if c.requested(ctx, name) {
					delete(next, name)
					asked[name] = running[name]
				}
			}
		}
		timer.Stop()
		if err := ctx.Err(); err != nil {
			for range running {
				<-ends
			}
			return err
		}
	}
}

// requested reports whether a check of a location was requested that Run has not found yet.
func (c *Checker) requested(ctx context.Context, name string) bool {
	k, err := c.o.Catalog.LastCheck(ctx, name)
	if err != nil && !errors.Is(err, catalog.ErrNotFound) {
		c.o.Log.Debug("fixity checks that were requested", "error", err) // the next pass reports it
	}
	if err != nil || !k.Ended.IsZero() || k.Began.Equal(c.seen[name]) {
		return false
	}
	c.seen[name] = k.Began
	return true
}

// ended is the end of a pass in a location.
type ended struct {
	name string
	err  error
}

// after gives the pause after a pass in a location.
func (c *Checker) after(ctx context.Context, e ended) time.Duration {
	if e.err == nil || ctx.Err() != nil {
		return again
	}
	c.o.Log.Error("fixity check", "location", e.name, "error", e.err)
	return afterFault
}

// Result is what a pass did.
type Result struct {
	Copies int64 // that were checked
	Bytes  int64
	Faults int // that were found
	Healed int
	Caught int // copies that a location lacked and that were stored
}

// Pass heals what is known to be damaged, checks what is due, and stores what locations lack: all locations at once,
// each on its own. The error joins those of locations that cannot be read, and of faults that cannot be healed.
func (c *Checker) Pass(ctx context.Context) (Result, error) {
	c.once.Lock()
	defer c.once.Unlock()
	var group sync.WaitGroup
	var mu sync.Mutex // guards total and errs
	var total Result
	var errs []error
	for _, name := range c.names() {
		group.Go(func() {
			one, err := c.location(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			total.Copies, total.Bytes = total.Copies+one.Copies, total.Bytes+one.Bytes
			total.Faults, total.Healed = total.Faults+one.Faults, total.Healed+one.Healed
			if total.Caught += one.Caught; err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
		return total, err
	}
	return total, errors.Join(errs...)
}

// location does the work of a pass in one location, and ends the check that was requested before.
func (c *Checker) location(ctx context.Context, name string) (Result, error) {
	began := c.o.Now()
	r, err := c.checkLocation(ctx, name, began)
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	failure := ""
	if !onlyFaults(err) {
		failure = err.Error()
	}
	return r, errors.Join(err, c.o.Catalog.EndCheck(ctx, name, failure, began, c.o.Now()))
}

// checkLocation heals what is known to be damaged in a location, checks what is due at a time, and stores what the
// location lacks.
func (c *Checker) checkLocation(ctx context.Context, name string, until time.Time) (r Result, err error) {
	if strings.HasPrefix(name, RootPrefix) {
		return c.checkRoot(ctx, name, until)
	}
	state, err := c.o.Catalog.Location(ctx, name, c.o.Now())
	if err != nil || !state.Marked { // it was never used
		return r, err
	}
	if err := c.o.Copies.Ready(ctx, name); err != nil {
		return r, err
	}
	p := &pass{skip: map[catalog.CopyKey]bool{}}
	var repaired time.Time
	for {
		if c.o.Now().Sub(repaired) >= again { // a pass over many copies can take days
			c.repair(ctx, name, p)
			repaired = c.o.Now()
		}
		due, err := c.o.Catalog.Due(ctx, name, until, batch+len(p.skip))
		due = slices.DeleteFunc(due, func(x catalog.Copy) bool { return p.skip[x.CopyKey] })
		if err == nil && len(due) == 0 {
			break
		}
		if err == nil {
			err = c.checkAll(ctx, due, p)
		}
		if err != nil {
			p.failed(err)
			return p.Result, errors.Join(p.errs...)
		}
	}
	return p.Result, errors.Join(p.errs...)
}

// repair heals what is known to be damaged in a location, deletes what could not be deleted before, and stores what
// the location lacks.
func (c *Checker) repair(ctx context.Context, name string, p *pass) {
	p.failed(c.healKnown(ctx, name, &p.Result))
	p.failed(c.o.Copies.Tidy(ctx, name))
	n, err := c.o.Copies.CatchUp(ctx, name)
	p.Caught += n
	p.failed(err)
}

// pass is the work in one location.
type pass struct {
	Result
	skip map[catalog.CopyKey]bool // could not be read, and are tried again in the next pass
	errs []error
	good []catalog.Checked // not entered yet
	row  int               // copies after each other that could not be read
}

// goesOn reports whether the next copy is checked after an error of one, which it enters.
func (p *pass) goesOn(k catalog.CopyKey, err error) bool {
	var unread *unreadError
	var unhealed *unhealedError
	switch {
	case errors.As(err, &unread):
		p.skip[k] = true
		if p.row++; p.row == mostUnread {
			return false
		}
	case !errors.As(err, &unhealed):
		return false
	}
	p.failed(err)
	return true
}

func (p *pass) failed(err error) {
	if err != nil {
		p.errs = append(p.errs, err)
	}
}

const (
	batch      = 64 // copies whose results are entered together: each write is a sync of the disk
	mostDelay  = 5 * time.Second
	mostUnread = 3 // copies after each other that cannot be read: then the location cannot
)

// checkAll checks copies, and enters good results together. A fault that could not be healed, and a file that could not
// be read, do not keep the others from being checked; several files after each other that cannot be read do.
func (c *Checker) checkAll(ctx context.Context, due []catalog.Copy, p *pass) error {
	enter := func() error {
		err := c.o.Catalog.PutChecked(context.WithoutCancel(ctx), p.good)
		p.good = p.good[:0]
		return err
	}
	last := time.Now()
	for _, x := range due {
		if err := ctx.Err(); err != nil {
			return errors.Join(err, enter())
		}
		err := c.check(ctx, x, p)
		if err != nil && !p.goesOn(x.CopyKey, err) {
			return errors.Join(err, enter())
		}
		if time.Since(last) > mostDelay {
			if err := enter(); err != nil {
				return err
			}
			last = time.Now()
		}
	}
	return enter()
}

// check checks one copy. A good result waits to be entered; another one is entered, and a fault is healed.
func (c *Checker) check(ctx context.Context, x catalog.Copy, p *pass) error {
	result, err := c.o.Copies.Fixity(ctx, x, c.o.Pace)
	if errors.Is(err, copies.ErrRecalled) {
		return c.o.Catalog.Postpone(ctx, x.CopyKey, c.o.Now().Add(recalling))
	}
	if err != nil {
		return &unreadError{err}
	}
	p.Copies, p.Bytes, p.row = p.Copies+1, p.Bytes+x.Size, 0
	result.At = c.o.Now()
	result.Next = c.o.Copies.Next(x.Location, result.At)
	bad, was := result.Fixity != catalog.Intact, x.Fixity == catalog.Corrupt || x.Fixity == catalog.Absent
	var events []catalog.Event
	switch {
	case bad != was || bad && result.Fixity != x.Fixity:
		events = append(events, c.event(x, bad, result.Detail, result.At))
		if err := c.report(ctx, x, bad, result.Fixity, result.Detail); err != nil {
			return err
		}
	case !bad:
		p.good = append(p.good, result)
		return nil
	}
	if err := c.o.Catalog.PutChecked(ctx, []catalog.Checked{result}, events...); err != nil {
		return err
	}
	if !bad {
		return nil
	}
	p.Faults++
	x.Fixity = result.Fixity
	return c.heal(ctx, x, len(events) > 0, &p.Result)
}

func (c *Checker) event(x catalog.Copy, bad bool, detail string, at time.Time) catalog.Event {
	outcome := "success"
	if bad {
		outcome = "failure"
	}
	return catalog.Event{
		Key: fmt.Sprintf("fixity/%d/%s/%d/%d", x.Artifact, x.Location, x.Generation, at.UnixNano()),
		Job: x.Of.Job, Path: x.Of.Path, Type: "fixity check", Outcome: outcome, Agent: c.o.Agent, At: at,
		Detail: "copy in " + x.Location + ": " + detail,
	}
}

// object names a copy in the audit log.
func object(x *catalog.Copy) string { return x.Location + " " + x.Key }

// report comes before the catalog has the fault: after a crash it may be reported twice, but is not missing.
func (c *Checker) report(ctx context.Context, x catalog.Copy, bad bool, found catalog.Fixity, detail string) error {
	if !bad {
		return c.o.Report(ctx, EventSound, object(&x), "a later check finds no fault")
	}
	c.o.Log.Error("fixity fault", "job", x.Of.Job, "path", x.Of.Path, "location", x.Location, "fault", found,
		"detail", detail)
	return c.o.Report(ctx, EventFault, object(&x), string(found)+": "+detail)
}

// unreadError is a copy that cannot be read now. It implies nothing about the copy.
type unreadError struct{ err error }

// Error gives the cause.
func (e *unreadError) Error() string { return e.err.Error() }

// Unwrap gives the cause.
func (e *unreadError) Unwrap() error { return e.err }

// unhealedError is a fault that could not be healed. It does not end a pass.
type unhealedError struct{ err error }

// Error gives the cause.
func (e *unhealedError) Error() string { return e.err.Error() }

// Unwrap gives the cause.
func (e *unhealedError) Unwrap() error { return e.err }

// onlyFaults reports whether an error consists of faults that could not be healed: then everything was checked.
func onlyFaults(err error) bool {
	switch e := err.(type) {
	case nil, *unhealedError:
		return true
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if !onlyFaults(one) {
				return false
			}
		}
		return true
	}
	return false
}

// heal replaces a copy with a fault, and reports that. That nothing can heal it is reported of a new fault only.
func (c *Checker) heal(ctx context.Context, x catalog.Copy, fresh bool, r *Result) error {
	good, err := c.o.Copies.Heal(ctx, x.CopyKey)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var none *copies.ReadError
		if errors.As(err, &none) && len(none.Errs) == 0 && fresh {
			err = errors.Join(err, c.o.Report(ctx, EventLost, object(&x), "there is no good copy"))
		}
		return &unhealedError{fmt.Errorf("heal %s: %w", x.Key, err)}
	}
	r.Healed++
	return c.o.Report(ctx, EventHealed, object(&x), "replaced by "+good.Key)
}

// healKnown heals faults of earlier passes in a location.
func (c *Checker) healKnown(ctx context.Context, name string, r *Result) error {
	faults, err := c.o.Catalog.Faults(ctx, 1000)
	if err != nil {
		return err
	}
	var errs []error
	for _, x := range faults {
		if x.Location == name && ctx.Err() == nil {
			errs = append(errs, c.heal(ctx, x, false, r))
		}
	}
	return errors.Join(errs...)
}
