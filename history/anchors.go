package history

import (
	"bufio"
	"cmp"
	"context"
	"crypto"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/edge/timestamp"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// Source has the histories.
type Source interface {
	// Audit is that of [job.AuditLog].
	Audit(ctx context.Context, seq int64, n int) ([]job.Audit, error)

	// Entries returns the number of the newest entry of all histories, and the series of commits.
	Entries(ctx context.Context) (last int64, series string, err error)
	// Newest calls yield with each history that has entries after one number and up to another.
	Newest(ctx context.Context, after, through int64, yield func(id job.ID, seq int64, hash job.Hash) error) error
}

// Options of [New]. Dir, Source and Authorities are required.
type Options struct {
	Dir          string // of the anchors; made if it does not exist
	Source       Source
	Installation string
	Every        time.Duration                 // there is one anchor for each such part of UTC; defaults to 24 h
	Retry        time.Duration                 // after a failure; defaults to 10 min
	Keep         time.Duration                 // how long records of deleted jobs are kept; zero: unlimited
	Authorities  func() []*timestamp.Authority // asked in this order; if there is none, no anchors are made
	Client       *http.Client                  // defaults to a new one
	Now          func() time.Time              // defaults to time.Now
	Log          *slog.Logger                  // defaults to no log
	// Leads reports whether Run makes the anchors here, not in another server on the same store. It is called before
	// each round; two servers may do so for a moment. Defaults to always.
	Leads func() bool
}

// Anchors makes anchors. Of several processes that make them in one directory at once, the first one that writes a file
// is the one that counts, and the others go on with it.
type Anchors struct {
	o     Options
	id    string                  // in the temporary names of files, which each process has for itself
	point func(name string) error // called before each step that a crash can separate; tests replace it

	rounds sync.Mutex // held during a round: the temporary names of a process are those of one round at a time

	mu      sync.Mutex // guards the rest
	state   State
	started time.Time // when the first round began
}

// State is what is known of the anchors.
type State struct {
	Number  int64     // of the newest anchor
	Made    time.Time // when it was made; zero: there is none
	Stamped time.Time // the time of the newest time stamp; zero: there is none
	Expires time.Time // when its certificates expire
	Failure error     // of the last round
}

// New makes the maker of anchors.
func New(o Options) *Anchors {
	o.Every, o.Retry = cmp.Or(o.Every, 24*time.Hour), cmp.Or(o.Retry, 10*time.Minute)
	o.Client = timestamp.Client(o.Client)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Leads == nil {
		o.Leads = func() bool { return true }
	}
	return &Anchors{o: o, id: rand.Text(), point: func(string) error { return nil }}
}

// takeOver is the pause between queries whether this server leads.
const takeOver = time.Minute

// Run makes anchors until ctx ends. A failed round is repeated earlier. While another server leads there are no rounds,
// and nothing is known of the anchors here.
func (a *Anchors) Run(ctx context.Context) {
	for {
		pause := takeOver
		if a.o.Leads() {
			pause = a.next(a.Round(ctx))
		} else {
			a.mu.Lock()
			a.state, a.started = State{}, time.Time{}
			a.mu.Unlock()
		}
		if ctx.Err() != nil {
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// next gives the pause after a round.
func (a *Anchors) next(err error) time.Duration {
	now := a.o.Now()
	pause := now.Truncate(a.o.Every).Add(a.o.Every).Sub(now)
	if err != nil {
		a.o.Log.Error("anchor of histories", "error", err)
		pause = min(pause, a.o.Retry)
	}
	return min(pause, time.Hour) // authorities can be added, and the clock set
}

// Round makes the anchor of the current part of time if there is none, and its time stamp. It may be repeated at any
// point: an anchor, and the answer of an authority for it, are written once.
func (a *Anchors) Round(ctx context.Context) error {
	a.rounds.Lock()
	defer a.rounds.Unlock()
	authorities := a.o.Authorities()
	a.mu.Lock()
	if a.started.IsZero() && len(authorities) > 0 {
		a.started = a.o.Now()
	}
	a.mu.Unlock()
	s, err := a.round(ctx, authorities)
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.Number >= a.state.Number {
		stamped, expires := a.state.Stamped, a.state.Expires
		if a.state = s; s.Stamped.IsZero() {
			a.state.Stamped, a.state.Expires = stamped, expires
		}
	}
	a.state.Failure = err
	return err
}

// State gives what is known of the anchors.
func (a *Anchors) State() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// Every gives the time between anchors; zero: there is no authority.
func (a *Anchors) Every() time.Duration {
	if len(a.o.Authorities()) == 0 {
		return 0
	}
	return a.o.Every
}

// Warnings lists what is wrong: for the health of a server.
func (a *Anchors) Warnings(now time.Time) (all []string) {
	every := a.Every()
	if every == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.state
	if s.Failure != nil {
		all = append(all, fmt.Sprintf("the anchor of histories failed: %v", s.Failure))
	}
	last := s.Stamped
	if last.IsZero() {
		last = a.started
	}
	if !last.IsZero() && now.Sub(last) > 2*every {
		all = append(all, fmt.Sprintf("histories have no time stamp since %s: check the time-stamp authorities",
			last.UTC().Format(time.RFC3339)))
	}
	return all
}

func (a *Anchors) round(ctx context.Context, authorities []*timestamp.Authority) (s State, err error) {
	if len(authorities) == 0 {
		return s, nil
	}
	if err := durable.MkdirAll(a.o.Dir, 0o700); err != nil {
		return s, err
	}
	root, err := os.OpenRoot(a.o.Dir)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if err := a.sweep(root); err != nil {
		return s, err
	}
	numbers, err := listAnchors(root.FS())
	if err != nil {
		return s, err
	}
	var last Anchor
	if n := len(numbers); n > 0 {
		if last, err = headOf(root.FS(), numbers[n-1]); err != nil {
			return s, err
		}
		s = a.stateOf(root, authorities, numbers)
		s.Number, s.Made = last.Number, last.Made
	}
	now := a.o.Now()
	if last.Number == 0 || !now.Truncate(a.o.Every).Equal(last.Made.Truncate(a.o.Every)) {
		if last, err = a.make(ctx, root, last, now); err != nil {
			return s, err
		}
		s.Number, s.Made = last.Number, last.Made
	}
	t, err := a.stamp(ctx, root, last.Number, authorities)
	if t != nil {
		s.Stamped, s.Expires = t.Time, t.Expires()
	}
	return s, err
}

// stateOf gives the newest time stamp. It reads at most one that exists.
func (a *Anchors) stateOf(root *os.Root, authorities []*timestamp.Authority, numbers []int64) (s State) {
	for _, n := range slices.Backward(numbers) {
		if _, err := root.Stat(replyName(n)); err != nil {
			continue
		}
		if t, err := a.written(root, n, authorities); t != nil && err == nil {
			s.Stamped, s.Expires = t.Time, t.Expires()
		}
		break
	}
	return s
}

// make writes the anchor after another one.
func (a *Anchors) make(ctx context.Context, root *os.Root, before Anchor, now time.Time) (next Anchor, err error) {
	next = Anchor{
		Number: before.Number + 1, Installation: a.o.Installation, Made: now.UTC(), Previous: none, Stamp: none,
		Keep: a.o.Keep,
	}
	if before.Number > 0 {
		if next.Previous, err = sumFile(root, anchorName(before.Number)); err != nil {
			return before, err
		}
		next.Stamp, err = sumFile(root, replyName(before.Number))
		if errors.Is(err, fs.ErrNotExist) {
			next.Stamp, err = none, nil
		}
		if err != nil {
			return before, err
		}
	}
	if next.Through, next.Series, err = a.o.Source.Entries(ctx); err != nil {
		return before, err
	}
	if next.Series == before.Series && next.Through >= before.Through {
		next.After = before.Through
	}
	log, err := a.o.Source.Audit(ctx, 0, -1)
	if err != nil {
		return before, err
	}
	if len(log) > 0 {
		next.Audit, next.AuditHash = log[0].Seq, log[0].Hash
	}
	if err := a.point("anchor"); err != nil {
		return before, err
	}
	err = a.file(root, anchorName(next.Number), true, func(f *os.File) error { return a.write(ctx, f, &next) })
	if errors.Is(err, fs.ErrExist) { // another server made it
		return headOf(root.FS(), next.Number)
	}
	return next, err
}

// file writes a file whole or not at all. With fresh, one that exists is not replaced: the error is [fs.ErrExist].
func (a *Anchors) file(root *os.Root, name string, fresh bool, fill func(*os.File) error) error {
	f := durable.File{Root: root, Name: name, Temporary: name + "." + a.id + temporary, New: fresh}
	return f.Write(fill)
}

// temporary is the ending of files that are being written.
const temporary = ".new"

// sweep removes what processes that ended while they wrote have left.
func (a *Anchors) sweep(root *os.Root) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		if info, gone := e.Info(); gone == nil && strings.HasSuffix(e.Name(), temporary) &&
			a.o.Now().Sub(info.ModTime()) > abandoned {
			err = errors.Join(err, root.Remove(e.Name()))
		}
	}
	return err
}

// abandoned is how long no process takes to write a file.
const abandoned = 24 * time.Hour

func (a *Anchors) write(ctx context.Context, f io.Writer, x *Anchor) error {
	w := bufio.NewWriter(f)
	if err := x.write(w); err != nil {
		return err
	}
	n := 0
	err := a.o.Source.Newest(ctx, x.After, x.Through, func(id job.ID, seq int64, hash job.Hash) error {
		n++
		_, err := fmt.Fprintf(w, "%s %d %s\n", id, seq, hash)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "end: %d\n", n) // Flush gives the error
	return w.Flush()
}

func anchorName(n int64) string { return fmt.Sprintf("%08d.txt", n) }

func replyName(n int64) string { return anchorName(n) + ".tsr" }

var anchorNames = regexp.MustCompile(`^([0-9]{8,18})\.txt$`)

// listAnchors lists the numbers of the anchors of a directory, in their order.
func listAnchors(dir fs.FS) (all []int64, err error) {
	names, err := fs.ReadDir(dir, ".")
	for _, e := range names {
		if m := anchorNames.FindStringSubmatch(e.Name()); m != nil {
			n, _ := strconv.ParseInt(m[1], 10, 64) // 18 digits fit
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, err
}

// headOf reads the head of an anchor.
func headOf(dir fs.FS, n int64) (a Anchor, err error) {
	f, err := dir.Open(anchorName(n))
	if err != nil {
		return a, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, mostLine), mostLine)
	if err := a.readHead(lines); err != nil {
		return a, fmt.Errorf("%s: %w", filepath.Base(anchorName(n)), err)
	}
	return a, nil
}

func sumFile(root *os.Root, name string) (string, error) {
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return sumOf(f)
}

// sumWith gives the digest of a file.
func sumWith(root *os.Root, name string, h crypto.Hash) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return digestOf(f, h)
}

func digestOf(r io.Reader, h crypto.Hash) ([]byte, error) {
	if !h.Available() {
		return nil, fmt.Errorf("the digest algorithm %d is not supported", h)
	}
	sum := h.New()
	if _, err := io.Copy(sum, r); err != nil {
		return nil, err
	}
	return sum.Sum(nil), nil
}
