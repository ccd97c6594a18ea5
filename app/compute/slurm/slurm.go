package slurm

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/internal/durable"
)

// Options are the cluster and what payloads may get there. Dir is required.
type Options struct {
	Name      string   // for people and logs. Defaults to "slurm"
	Dir       string   // absolute; shared with the nodes under the same path. Payload directories live below
	Partition string   // Defaults to Slurm's default partition
	Account   string   // Defaults to Slurm's default account of the user
	QOS       string   // Defaults to Slurm's
	Extra     []string // more options of sbatch, "--name=value" each; only those of [Allowed]
	Services  []string // that it serves. Defaults to all
	// payloads here at once; 0: as many as the partition has CPUs; -1: as many as come, and Slurm queues them
	Slots int

	Bin     string        // folder of Slurm's commands. Defaults to those in PATH
	Conf    string        // value of SLURM_CONF for the commands. Defaults to Slurm's own path
	Timeout time.Duration // of one command. Defaults to a minute
	// how old an answer of squeue may be that serves a question, and how often Notify asks. Defaults to 5 s
	Poll time.Duration
	// how long after an end in Slurm exit.json may still appear (network file systems). Defaults to 5 s
	Settle time.Duration
	Grace  time.Duration // between TERM and KILL. Defaults to 30 s
	// how long a forgotten ticket is remembered, so that a late repetition does not run it. Defaults to 30 days
	Keep time.Duration

	Env map[string]string // for all payloads; the payload's own win
	// bubblewrap on the nodes: payloads run confined by it, without network. Defaults to none: Slurm alone confines
	// them
	Bwrap string
	Binds []string     // absolute paths that confined payloads see, read-only, besides /usr
	Files int          // most files in results. Defaults to 100,000
	Bytes int64        // most bytes of the files in results. Defaults to 64 GiB
	Log   *slog.Logger // Defaults to slog.Default()
}

// Allowed lists the options of sbatch that Options.Extra may hold: what chooses resources. Those that define what runs,
// where output goes, under whose name or how often are ours.
var Allowed = []string{
	"--clusters", "--constraint", "--prefer", "--nodelist", "--exclude", "--reservation", "--nice", "--licenses",
	"--gres", "--gpus", "--gpus-per-node", "--gpus-per-task",
	"--tmp", "--wckey", "--exclusive", "--hint", "--threads-per-core", "--core-spec", "--mem-per-gpu", "--cpus-per-gpu",
	"--begin", "--deadline", "--switches", "--bb", "--power",
}

// Validate gives all mistakes at once.
func (o Options) Validate() error {
	var wrong []error
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if !filepath.IsAbs(o.Dir) {
		bad("slurm: the directory %q is not absolute", o.Dir)
	}
	for _, path := range slices.Concat([]string{o.Dir, o.Bin, o.Conf, o.Bwrap}, o.Binds) {
		if strings.ContainsFunc(path, func(r rune) bool {
			return r < ' ' || r == 0x7f
		}) || strings.Contains(path, "%") {
			bad("slurm: the path %q has a percent sign or control characters, which sbatch would read otherwise", path)
		}
	}
	for _, path := range o.Binds {
		if !filepath.IsAbs(path) {
			bad("slurm: the bind %q is not absolute", path)
		}
	}
	for _, word := range []string{o.Partition, o.Account, o.QOS} {
		if !words.MatchString(word) {
			bad("slurm: %q is no name of a partition, an account or a QOS", word)
		}
	}
	for _, extra := range o.Extra {
		name, value, _ := strings.Cut(extra, "=")
		if !slices.Contains(Allowed, name) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' }) {
			bad("slurm: the option %q of sbatch is not allowed (can: %s)", extra, strings.Join(Allowed, ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Env)) {
		if err := variable(name, o.Env[name]); err != nil {
			bad("slurm: %w", err)
		}
	}
	if o.Slots < -1 || o.Timeout < 0 || o.Poll < 0 || o.Settle < 0 || o.Grace < 0 || o.Keep < 0 {
		bad("slurm: a number or duration is negative")
	}
	return errors.Join(wrong...)
}

// words matches names in Slurm; a list of partitions has commas.
var words = regexp.MustCompile(`^[A-Za-z0-9_.,@+-]*$`)

// Slurm is an executor of one cluster.
type Slurm struct {
	o          Options
	log        *slog.Logger
	root       *os.Root // Dir
	instance   string
	commands   map[string]string // path by name
	queue      queue
	accounting accounting
	poke       chan struct{} // an early poll is wanted

	mu    sync.Mutex
	locks map[string]*lock     // of payload directories by name
	done  map[string]bool      // directories of payloads that have ended: they are not queried any more
	ended map[string]time.Time // directories of payloads that have ended according to Slurm, and when it was first seen

	now  func() time.Time
	step func(name string) // tests end the process in it
}

var (
	_ compute.Executor = (*Slurm)(nil)
	_ compute.Notifier = (*Slurm)(nil)
)

// New opens the directory, making it where it is missing, and searches for the commands; sacct may be missing. It does
// not talk to the cluster.
func New(o Options) (*Slurm, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.Name = cmp.Or(o.Name, "slurm")
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	o.Poll = cmp.Or(o.Poll, 5*time.Second)
	o.Settle = cmp.Or(o.Settle, 5*time.Second)
	o.Grace = cmp.Or(o.Grace, 30*time.Second)
	o.Keep = cmp.Or(o.Keep, 30*24*time.Hour)
	o.Files = cmp.Or(o.Files, 100_000)
	o.Bytes = cmp.Or(o.Bytes, 64<<30)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	s := &Slurm{
		o: o, log: o.Log.With("executor", o.Name), commands: map[string]string{}, poke: make(chan struct{}, 1),
		locks: map[string]*lock{}, done: map[string]bool{}, ended: map[string]time.Time{}, now: time.Now,
		step: func(string) {},
	}
	if err := s.commandsThere(); err != nil {
		return nil, err
	}
	if err := durable.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("slurm: %w", err)
	}
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("slurm: %w", err)
	}
	s.root = root
	if err := s.open(); err != nil {
		root.Close()
		return nil, err
	}
	s.queue = queue{ask: s.askQueue, now: s.now}
	return s, nil
}

// Close closes the directory. Payloads go on.
func (s *Slurm) Close() error { return s.root.Close() }

// The folders beside the payloads'.
const (
	stageDir  = ".stage"    // payload directories that are being written
	goneDir   = ".gone"     // a file for each ticket that was forgotten
	sentDir   = ".sent"     // a file for each ticket that Slurm may have: which directories are its own
	trashDir  = ".trash"    // payload directories that are being removed
	instances = ".instance" // holds the name of this memory
)

// open reads the name of the memory, or gives it one, and clears away what a server left that was killed.
func (s *Slurm) open() error {
	for _, dir := range []string{stageDir, goneDir, sentDir, trashDir} {
		if err := s.root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("slurm: %w", err)
		}
	}
	name, err := s.root.ReadFile(instances)
	if errors.Is(err, fs.ErrNotExist) {
		var raw [12]byte
		_, _ = rand.Read(raw[:])
		name = []byte("slurm-" + hex.EncodeToString(raw[:]))
		err = writeFile(s.root, instances, name)
	}
	if err != nil {
		return fmt.Errorf("slurm: %w", err)
	}
	s.instance = strings.TrimSpace(string(name))
	return s.sweep()
}

// stale is the age at which a stage or trash folder has no owner any more: another server may be writing a younger one.
const stale = 24 * time.Hour

func (s *Slurm) sweep() error {
	ages := map[string]time.Duration{stageDir: stale, trashDir: 0, goneDir: s.o.Keep, sentDir: s.o.Keep}
	for dir, age := range ages {
		entries, err := fs.ReadDir(s.root.FS(), dir)
		if err != nil {
			return fmt.Errorf("slurm: %w", err)
		}
		for _, e := range entries {
			if _, err := s.root.Lstat(e.Name()); dir == sentDir && err == nil {
				continue // its payload is there
			}
			if info, err := e.Info(); err == nil && s.now().Sub(info.ModTime()) >= age {
				if err := s.root.RemoveAll(dir + "/" + e.Name()); err != nil {
					s.log.Warn("leftovers of a payload cannot be removed", "path", dir+"/"+e.Name(), "error", err)
				}
			}
		}
	}
	return nil
}

// lock is held while a payload's directory is changed, in this process.
type lock struct {
	held chan struct{}
	uses int
}

// hold waits for a payload's lock; the function that it gives releases it. The error is the context's.
func (s *Slurm) hold(ctx context.Context, name string) (func(), error) {
	s.mu.Lock()
	l := s.locks[name]
	if l == nil {
		l = &lock{held: make(chan struct{}, 1)}
		s.locks[name] = l
	}
	l.uses++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.uses--; l.uses == 0 {
			delete(s.locks, name)
		}
	}
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

// hurry has Notify ask now.
func (s *Slurm) hurry() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}
