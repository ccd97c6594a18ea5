package history

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/stagepost/stagepost/internal/dirlock"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// CheckpointOptions are those of [NewCheckpoints]. File, Key and Source are required.
type CheckpointOptions struct {
	File         string // checkpoints are appended to it
	Key          string // file of the private key; made if there is neither a key nor a checkpoint
	Source       Source
	Installation string
	Every        time.Duration    // between checkpoints; defaults to 1 h
	Retry        time.Duration    // after a failure; defaults to 10 min
	Keep         time.Duration    // how long records of deleted jobs are kept; zero: unlimited
	Now          func() time.Time // defaults to time.Now
	Log          *slog.Logger     // defaults to no log
	Leads        func() bool      // see [Options]
}

// Checkpoints signs checkpoints. Several processes may do so in one file: a lock of it is held while one is appended.
type Checkpoints struct {
	o CheckpointOptions

	signing sync.Mutex // held while a checkpoint is made; guards last and end
	last    *record    // the newest checkpoint; nil: there is none
	end     int64      // offset behind it

	mu      sync.Mutex // guards the rest
	failure error      // of the last round
	state   CheckpointState
}

// CheckpointState is how the signing of checkpoints goes on.
type CheckpointState struct {
	Covered  time.Time // a checkpoint has all that was committed until then; zero: there is none
	Failures int64     // rounds that failed since the start
}

// State returns the state, and whether this process makes the rounds: while another server leads, its state counts.
func (c *Checkpoints) State() (s CheckpointState, leads bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state, c.o.Leads()
}

// Every is the time between rounds.
func (c *Checkpoints) Every() time.Duration { return c.o.Every }

// NewCheckpoints makes the signer of checkpoints.
func NewCheckpoints(o CheckpointOptions) *Checkpoints {
	o.Every, o.Retry = cmp.Or(o.Every, time.Hour), cmp.Or(o.Retry, 10*time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Leads == nil {
		o.Leads = func() bool { return true }
	}
	return &Checkpoints{o: o}
}

// Run signs checkpoints until ctx ends, the first one at once. A failed round is repeated earlier. While another server
// leads there are no rounds.
func (c *Checkpoints) Run(ctx context.Context) {
	if last, err := c.Last(); err == nil {
		c.mu.Lock()
		c.state.Covered = last.Made
		c.mu.Unlock()
	}
	for ctx.Err() == nil {
		pause := min(takeOver, c.o.Every)
		if c.o.Leads() {
			pause = c.o.Every
			if err := c.Round(ctx); err != nil {
				pause = min(pause, c.o.Retry)
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Round signs a checkpoint if a history or the audit log has grown since the last one.
func (c *Checkpoints) Round(ctx context.Context) error {
	begun := c.o.Now()
	err := c.sign(ctx, change{})
	if ctx.Err() != nil || errors.Is(err, dirlock.Err) { // another server signs
		return nil
	}
	if err != nil {
		c.o.Log.Error("checkpoint of histories", "error", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure = err; err != nil {
		c.state.Failures++
	} else {
		c.state.Covered = begun
	}
	return err
}

// Restored signs a checkpoint that has all heads: a backup was restored. Void is the first checkpoint that the present
// histories do not extend, as [VerifyCheckpoints] reports it: it and those after it are void. Zero: none is.
func (c *Checkpoints) Restored(ctx context.Context, void int64, who, why string) error {
	return c.sign(ctx, change{restored: fmt.Sprintf("%q by %q", why, who), void: void})
}

// Rotate makes another key, and signs a checkpoint that names it with both. A missing key signs nothing: verifiers then
// need the public key of the new one from its owner.
func (c *Checkpoints) Rotate(ctx context.Context) error { return c.sign(ctx, change{rotate: true}) }

// Adopt appends to the file what a copy of it has more. It refuses a copy of another file.
func (c *Checkpoints) Adopt(from io.Reader) (err error) {
	f, err := c.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	mine, copied := bufio.NewReader(f), bufio.NewReader(from)
	for {
		b, err := mine.ReadByte()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if other, err := copied.ReadByte(); err != nil || other != b {
			return fmt.Errorf("the copy does not begin as %s: move that file away if the copy replaces it", c.o.File)
		}
	}
	if _, err := io.Copy(f, copied); err != nil {
		return err
	}
	return f.Sync()
}

// Key gives the public key.
func (c *Checkpoints) Key() (string, error) {
	k, err := readKey(c.o.Key)
	if err != nil {
		return "", err
	}
	return k.public, nil
}

// Last gives the newest checkpoint of the file; its number is zero if there is none.
func (c *Checkpoints) Last() (last Checkpoint, err error) {
	f, err := os.Open(c.o.File)
	if errors.Is(err, fs.ErrNotExist) {
		return last, nil
	}
	if err != nil {
		return last, err
	}
	defer f.Close()
	_, err = readRecords(f, false, func(r *record) error { last = r.Checkpoint; return r.fault })
	return last, err
}

// Warnings lists what is wrong: for the health of a server.
func (c *Checkpoints) Warnings() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil || !c.o.Leads() {
		return nil
	}
	return []string{fmt.Sprintf("no checkpoint of histories is signed: %v", c.failure)}
}

// change is what a checkpoint records besides the heads.
type change struct {
	restored string
	void     int64
	rotate   bool
}

// open opens and locks the file. Its error is [dirlock.Err] if another process has the lock.
func (c *Checkpoints) open() (*os.File, error) {
	f, err := os.OpenFile(c.o.File, os.O_RDWR|os.O_CREATE|os.O_APPEND|durable.Plain, 0o600)
	if err != nil {
		return nil, err
	}
	if err := dirlock.TryLock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", c.o.File, err), f.Close())
	}
	return f, nil
}

func (c *Checkpoints) sign(ctx context.Context, x change) (err error) {
	c.signing.Lock()
	defer c.signing.Unlock()
	f, err := c.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := c.catchUp(f)
	if err != nil {
		return err
	}
	keys, err := c.keys(x)
	if err != nil {
		return err
	}
	next, err := c.next(ctx, x)
	if next == nil || err != nil {
		return err
	}
	if x.rotate {
		next.Key = keys[len(keys)-1].public
	}
	if err := c.append(ctx, f, size, next, keys); err != nil {
		_ = f.Truncate(size) // a reader skips what is left otherwise
		return err
	}
	if x.rotate {
		return c.replaceKey()
	}
	return nil
}

// catchUp reads what others have appended. It returns the size of the file.
func (c *Checkpoints) catchUp(f *os.File) (size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if size = info.Size(); size < c.end {
		return 0, fmt.Errorf("%s was shortened or replaced since checkpoint %d: put it back from a copy, or restart "+
			"the server to begin anew", c.o.File, c.last.Number)
	}
	end, err := readRecords(io.NewSectionReader(f, c.end, size-c.end), false, func(r *record) error {
		if r.fault != nil {
			return c.damaged(r, r.fault)
		}
		c.last = r
		return nil
	})
	c.end += end
	return size, err
}

func (c *Checkpoints) damaged(r *record, err error) error {
	return fmt.Errorf("%s is damaged, %s: %w: put it back from a copy", c.o.File, r.object(), err)
}

// nextKey is the file of a key that a checkpoint names and that is not yet the key.
func (c *Checkpoints) nextKey() string { return c.o.Key + ".next" }

// replaceKey makes the next key the key.
func (c *Checkpoints) replaceKey() error {
	if err := os.Rename(c.nextKey(), c.o.Key); err != nil {
		return err
	}
	return durable.Sync(filepath.Dir(c.o.Key))
}

// keys gives the keys that sign: the one that signed the checkpoint before, and a new one for a rotation.
func (c *Checkpoints) keys(x change) (all []*signingKey, err error) {
	if err := c.finishRotation(); err != nil {
		return nil, err
	}
	k, err := readKey(c.o.Key)
	missing := errors.Is(err, fs.ErrNotExist)
	if missing && c.last == nil {
		k, err = makeKey(c.o.Key, c.o.Installation, false)
		missing = false
	}
	if c.last != nil && !missing && err == nil {
		err = c.present(k)
	}
	switch {
	case missing && !x.rotate:
		return nil, fmt.Errorf("the key %s, which signed checkpoint %d, is missing: copy it back, or make another one "+
			"(stagepost admin checkpoint rotate)", c.o.Key, c.last.Number)
	case !missing && err != nil:
		return nil, err
	case !missing:
		all = append(all, k)
	}
	if x.rotate {
		if k, err = makeKey(c.nextKey(), c.o.Installation, true); err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	return all, nil
}

// finishRotation makes the next key the key if the last checkpoint names it: a crash ended the rotation.
func (c *Checkpoints) finishRotation() error {
	if c.last == nil || c.last.Key == "" {
		return nil
	}
	if next, err := readKey(c.nextKey()); err != nil || next.public != c.last.Key {
		return nil // the key is present, or is missing
	}
	return c.replaceKey()
}

// present checks that a key is the one that signs after the last checkpoint.
func (c *Checkpoints) present(k *signingKey) error {
	known, err := parseKeys([]string{k.public})
	if err != nil {
		return err
	}
	err = c.last.signedBy(known)
	if errors.As(err, new(*note.UnverifiedNoteError)) || c.last.Key != "" && c.last.Key != k.public {
		return fmt.Errorf("the key %s has not signed checkpoint %d, %s has: copy that key back", c.o.Key,
			c.last.Number, c.last.signers())
	}
	if err != nil {
		return c.damaged(c.last, err)
	}
	return nil
}

// next makes the next checkpoint, without its heads; nil: nothing has grown.
func (c *Checkpoints) next(ctx context.Context, x change) (*Checkpoint, error) {
	next := &Checkpoint{Restored: x.restored, Anchor: Anchor{Number: 1, Installation: c.o.Installation,
		Made: c.o.Now().UTC(), Previous: none, Stamp: none, Keep: c.o.Keep}}
	var err error
	if next.Through, next.Series, err = c.o.Source.Entries(ctx); err != nil {
		return nil, err
	}
	log, err := c.o.Source.Audit(ctx, 0, -1)
	if err != nil {
		return nil, err
	}
	if len(log) > 0 {
		next.Audit, next.AuditHash = log[0].Seq, log[0].Hash
	}
	last := c.last
	if last == nil {
		return next, nil
	}
	next.Number, next.Previous = last.Number+1, last.sum()
	if x.restored != "" {
		next.Void = cmp.Or(x.void, next.Number)
		return next, nil
	}
	if err := c.extends(ctx, next); err != nil {
		return nil, err
	}
	if next.Series == last.Series {
		next.After = last.Through
		if x == (change{}) && next.Through == last.Through && next.AuditHash == last.AuditHash {
			return nil, nil
		}
	}
	return next, nil
}

// extends checks, as far as that costs little, that the last checkpoint is of an earlier state of the same histories.
func (c *Checkpoints) extends(ctx context.Context, next *Checkpoint) error {
	last := c.last
	good := next.Series != last.Series || next.Through >= last.Through
	if good && last.Audit > 0 {
		log, err := c.o.Source.Audit(ctx, last.Audit-1, 1)
		if err != nil {
			return err
		}
		good = len(log) > 0 && log[0].Seq == last.Audit && log[0].Hash == last.AuditHash
	}
	if good {
		return nil
	}
	return fmt.Errorf("the histories or the audit log do not extend %s of %s: if a backup was restored, or lost "+
		"commits were accepted, record it (stagepost admin checkpoint restored --note WHY); stagepost admin verify "+
		"--key KEY lists what differs",
		last.object(), last.Made.UTC().Format(time.RFC3339))
}

// append writes a checkpoint with its heads at the end of the file.
func (c *Checkpoints) append(ctx context.Context, f *os.File, size int64, next *Checkpoint, keys []*signingKey) error {
	w := bufio.NewWriter(f)
	if size > c.end { // a crash ended a record
		_, _ = w.WriteString(interrupted) // Flush gives the error
	}
	fmt.Fprintf(w, "%s%d\n", headsTitle, next.Number)
	sum := sha256.New()
	lines := io.MultiWriter(w, sum)
	err := c.o.Source.Newest(ctx, next.After, next.Through, func(id job.ID, seq int64, hash job.Hash) error {
		next.Heads++
		_, err := fmt.Fprintf(lines, "%s %d %s\n", id, seq, hash)
		return err
	})
	if err != nil {
		return err
	}
	next.HeadsSum = hex.EncodeToString(sum.Sum(nil))
	signers := make([]note.Signer, len(keys))
	for i, k := range keys {
		signers[i] = k
	}
	signed, err := note.Sign(&note.Note{Text: next.text()}, signers...)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s\n", signed)
	if err := w.Flush(); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), durable.Sync(filepath.Dir(c.o.File))); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	c.last, c.end = &record{Checkpoint: *next, note: signed}, info.Size()
	return nil
}
