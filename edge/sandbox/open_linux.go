package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stagepost/stagepost/edge/sandbox/cgroup"
	"github.com/stagepost/stagepost/edge/sandbox/landlock"
	"github.com/stagepost/stagepost/edge/sandbox/seccomp"
)

// Sandbox runs commands in the tier that was found at the start. It may be used by several goroutines at once.
type Sandbox struct {
	name    string
	tier    string
	checks  []Check
	self    string // this program, for bubblewrap
	bwrap   string // empty: not installed
	groups  *cgroup.Manager
	ids     *ids // nil: commands have the caller's user id, and those of root are refused
	lends   bool // directories are lent to commands even where they could be mounted for them; for tests
	spawner *spawner
	ended   context.Context // ends with Close
	end     context.CancelFunc

	mu   sync.Mutex // guards closed, and runs against it
	done bool
	runs sync.WaitGroup
}

// Open tries every tier by running a command in it, and picks the best that Options allow. What earlier processes of
// the same name left in control groups is ended. The error reports why no allowed tier works.
func Open(ctx context.Context, o Options) (*Sandbox, error) {
	name := o.Name
	if name == "" {
		name = defaultName
	}
	groups, found, err := cgroup.Open(cgroup.Options{Prefix: name})
	if err != nil {
		return nil, fmt.Errorf("search for control groups: %w", err)
	}
	return open(ctx, o, groups, found)
}

func open(ctx context.Context, o Options, groups *cgroup.Manager, found []cgroup.Check) (*Sandbox, error) {
	s := &Sandbox{name: o.Name, groups: groups, ids: newIDs(), spawner: newSpawner()}
	if s.name == "" {
		s.name = defaultName
	}
	sweepTemps(os.TempDir(), time.Now())
	s.ended, s.end = context.WithCancel(context.Background())
	s.self, _ = os.Executable()
	s.bwrap, _ = exec.LookPath("bwrap")
	if groups != nil {
		if err := groups.Sweep(s.name); err != nil {
			s.checks = append(s.checks, Check{"left control groups", false, err.Error(),
				"end their processes and remove them"})
		}
	}
	for _, c := range found {
		s.checks = append(s.checks, Check(c))
	}
	if err := s.pick(ctx, o.Tier); err != nil {
		_ = s.Close()
		return nil, err
	}
	s.checkParts()
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if s.tier == None {
		log.Warn("no confinement: " + s.open())
	}
	log.Info("sandbox", "tier", s.tier, "control_groups", s.groups != nil, "own_ids", s.ids != nil)
	return s, nil
}

// remedies for a tier that does not work.
var remedies = map[string]string{
	Native: "allow unprivileged user namespaces (kernel 5.12 or later; sysctl user.max_user_namespaces, " +
		"kernel.apparmor_restrict_unprivileged_userns=0; in a container a seccomp profile that allows unshare " +
		"and mount)",
	Bwrap: "install bubblewrap",
	None:  "allow this program to execute itself",
}

// remedy reports what an operator can do for a tier that does not work.
func (s *Sandbox) remedy(tier string) string {
	if os.Geteuid() != 0 {
		return remedies[tier]
	}
	if s.ids == nil {
		return "run this program as another user than root, or give its container a range of user ids"
	}
	if info, err := os.Stat(s.self); err == nil && tier != None && info.Mode()&0o001 == 0 {
		return "let every user execute " + s.self + ": commands of root get a user id of their own"
	}
	return remedies[tier]
}

// pick tries the tiers and takes the first allowed one that works.
func (s *Sandbox) pick(ctx context.Context, want string) error {
	allowed := map[string][]string{"": {Native, Bwrap, None}, Auto: {Native, Bwrap, None}, Require: {Native, Bwrap},
		Native: {Native}, Bwrap: {Bwrap}, None: {None}}[want]
	if allowed == nil {
		return fmt.Errorf("there is no sandbox tier %q (there are: auto, native, bwrap, none, require)", want)
	}
	works := map[string]bool{}
	var failed []error
	for _, tier := range []string{Native, Bwrap, None} {
		err := s.probe(ctx, tier)
		works[tier] = err == nil
		if err != nil {
			failed = append(failed, fmt.Errorf("tier %s: %w", tier, err))
			s.checks = append(s.checks, Check{"tier " + tier, false, err.Error(), s.remedy(tier)})
		} else {
			s.checks = append(s.checks, Check{"tier " + tier, true, "a command ran", ""})
		}
	}
	for _, tier := range allowed {
		if works[tier] {
			s.tier = tier
			return nil
		}
	}
	if want == "" {
		want = Auto
	}
	return fmt.Errorf("no sandbox of %q works here: %w", want, errors.Join(failed...))
}

// lastProbe bounds one trial.
const lastProbe = 10 * time.Second

// probe runs a command that does nothing but end in its own way.
func (s *Sandbox) probe(ctx context.Context, tier string) error {
	if tier == Bwrap && s.bwrap == "" {
		return errors.New("there is no bwrap in PATH")
	}
	dir, err := os.MkdirTemp("", "stagepost-probe-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, lastProbe)
	defer cancel()
	e, err := s.run(ctx, tier, &Command{Argv: []string{"/bin/sh", "-c", "echo > here && exit 7"}, Dir: dir})
	switch {
	case err != nil:
		return err
	case e.Exit != 7:
		return errors.New(e.Sentence)
	}
	return nil
}

// checkParts reports which walls there are beside the tier.
func (s *Sandbox) checkParts() {
	yes := func(name string, ok bool, detail, remedy string) {
		if ok {
			remedy = ""
		}
		s.checks = append(s.checks, Check{name, ok, detail, remedy})
	}
	if len(seccomp.Filter()) > 0 {
		yes("system call filter", true, fmt.Sprintf("%d instructions", len(seccomp.Filter())), "")
	} else {
		yes("system call filter", false, "there is none for this architecture", "use amd64 or arm64")
	}
	switch abi := landlock.ABI(); {
	case abi == 0:
		yes("landlock", false, "this kernel has none",
			"use a kernel with Landlock (5.19 or later, in the list of lsm=)")
	case landlock.Rights(abi) == 0:
		yes("landlock", false, fmt.Sprintf("version %d refuses every move of a file to another directory", abi),
			"use a kernel of 5.19 or later")
	default:
		yes("landlock", true, fmt.Sprintf("version %d", abi), "")
	}
	switch {
	case s.ids != nil:
		yes("own user ids", true, fmt.Sprintf("from %d", s.ids.base), "")
	case os.Geteuid() != 0:
		yes("own user ids", true, "commands run as this user, who is not root", "")
	}
	if s.tier == None {
		yes("confinement", false, s.open(),
			"make the tier native or bwrap work, or run this program in a container or a machine of its own")
	}
}

// open reports what tier none leaves open.
func (s *Sandbox) open() string {
	if s.ids != nil {
		return "commands see the network and the processes of the machine, and the files that all users may read"
	}
	return "commands see the files, the network and the processes that this user sees"
}

// ShowsAll reports whether commands may read every file of this program's user: in tier none, unless they have ids of
// their own.
func (s *Sandbox) ShowsAll() bool { return s.tier == None && s.ids == nil }

// Hide keeps commands that have this program's id from its memory and its environment, where its secrets are. It holds
// for the whole program, which then can make no sandbox of another tier.
func (s *Sandbox) Hide() error {
	if !s.ShowsAll() {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide the memory of this program from commands: %w", err)
	}
	return nil
}

// Tier is the one that Run uses.
func (s *Sandbox) Tier() string { return s.tier }

// Checks reports what was found at the start, for an operator.
func (s *Sandbox) Checks() []Check { return s.checks }

// Close ends what runs as if its context ended, and waits for it. Run fails afterwards. It may be called twice.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	again := s.done
	s.done = true
	s.mu.Unlock()
	s.end()
	s.runs.Wait()
	if again {
		return nil
	}
	s.spawner.close()
	if s.ids != nil {
		s.ids.close()
	}
	return nil
}
