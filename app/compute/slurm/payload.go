package slurm

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// The files of a payload's directory; see the package's overview.
const (
	ticketFile = "ticket.json"
	batchFile  = "batch.sh"
	envFile    = "env"
	slurmFile  = "slurm.json"
	claimDir   = "claim"
	claimFile  = "claim/by"
	sentFile   = "sent" // sbatch may have been called
	killedFile = "killed"
	exitFile   = "exit.json"
	outFile    = "stdout"
	errFile    = "stderr"
	slurmLog   = "slurm.out"
	workDir    = "work"
)

var (
	jobID   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,79}$`)
	dirName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,79}\.[1-9][0-9]{0,17}$`)
	jobName = regexp.MustCompile(`^stagepost-[A-Za-z0-9][A-Za-z0-9_-]{0,79}-[1-9][0-9]{0,17}$`)
)

// dirOf gives the name of a ticket's directory; an id that could be a path or an option is refused.
func dirOf(t compute.Ticket) (string, error) {
	if !jobID.MatchString(string(t.Job)) || t.Attempt < 1 || t.Attempt > 1e17 {
		return "", fmt.Errorf("slurm: %q, attempt %d, cannot be a payload's name", printable(string(t.Job), 100),
			t.Attempt)
	}
	return string(t.Job) + "." + strconv.FormatInt(t.Attempt, 10), nil
}

// nameOf gives the name of a directory's job in Slurm.
func nameOf(dir string) string {
	i := strings.LastIndexByte(dir, '.')
	return "stagepost-" + dir[:i] + "-" + dir[i+1:]
}

// jobOf gives the job of a directory.
func jobOf(dir string) job.ID { return job.ID(dir[:strings.LastIndexByte(dir, '.')]) }

// ticket is ticket.json. The secret itself is not there: the payload could read it.
type ticket struct {
	Job      job.ID         `json:"job"`
	Attempt  int64          `json:"attempt"`
	Secret   string         `json:"secret_sha256"`
	Service  string         `json:"service"`
	Owner    string         `json:"owner"`
	Files    []compute.File `json:"files"`
	Inputs   bool           `json:"inputs,omitempty"`
	Limits   compute.Limits `json:"limits,omitzero"`
	Sandbox  string         `json:"sandbox"`
	Received time.Time      `json:"received_at"`
}

// receipt is slurm.json.
type receipt struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

// payload is a directory that is there.
type payload struct {
	dir     string // its name
	root    *os.Root
	ticket  ticket
	receipt receipt // an empty id: no answer of sbatch was written down
}

func (p *payload) close() { p.root.Close() }

// enter opens a payload's directory. fs.ErrNotExist: there is none; ErrNoPayload: the secret is another one's.
func (s *Slurm) enter(t compute.Ticket) (*payload, error) {
	dir, err := dirOf(t)
	if err != nil {
		return nil, err
	}
	root, err := s.own(dir)
	if err != nil {
		return nil, err
	}
	p := &payload{dir: dir, root: root}
	if err := p.read(); err != nil {
		p.close()
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(digest(t.Secret)), []byte(p.ticket.Secret)) != 1 {
		p.close()
		return nil, fmt.Errorf("%w: it was handed over with another secret", compute.ErrNoPayload)
	}
	return p, nil
}

func (p *payload) read() error {
	text, err := readFile(p.root, ticketFile, 1<<26)
	if err != nil {
		return fmt.Errorf("slurm: payload %s: %w", p.dir, noLonger(err))
	}
	if err := json.Unmarshal(text, &p.ticket); err != nil {
		return fmt.Errorf("slurm: payload %s: its ticket cannot be read: %w", p.dir, err)
	}
	return p.refresh()
}

// refresh reads Slurm's id anew.
func (p *payload) refresh() error {
	text, err := readFile(p.root, slurmFile, 1<<16)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &p.receipt)
	}
	if err == nil && !number.MatchString(p.receipt.ID) {
		err = fmt.Errorf("%q is no number of a job", printable(p.receipt.ID, 40))
	}
	if err != nil {
		return fmt.Errorf("slurm: payload %s: %s: %w", p.dir, slurmFile, noLonger(err))
	}
	return nil
}

// noLonger keeps a missing file in a directory that is there from being taken for a missing directory.
func noLonger(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("a file of it is missing")
	}
	return err
}

func (p *payload) has(name string) bool {
	_, err := p.root.Lstat(name)
	return err == nil
}

// claimed gives the id of the job in Slurm that has the payload; taken reports whether any job has.
func (p *payload) claimed() (id string, taken bool) {
	if !p.has(claimDir) {
		return "", false
	}
	text, err := readFile(p.root, claimFile, 64)
	if id = strings.TrimSpace(string(text)); err != nil || !number.MatchString(id) {
		return "", true
	}
	return id, true
}

// claim takes the payload, so that no run of it can begin; false: a run has it.
func (p *payload) claim() (bool, error) {
	err := p.root.Mkdir(claimDir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// exited is exit.json.
type exited struct {
	Exit     int    `json:"exit"`
	Signal   int    `json:"signal"`
	Cause    string `json:"cause"` // "", wall, disk
	Notified bool   `json:"told"`  // it was sent TERM before it ended
	Started  int64  `json:"started"`
	Finished int64  `json:"finished"`
	WallMS   int64  `json:"wall_ms"`
	CPUMS    int64  `json:"cpu_ms"`
	Disk     int64  `json:"disk"` // KiB; 0: was not measured
	Cut      bool   `json:"cut"`
	Place    string `json:"place"`
}

// exit reads exit.json; nil: there is none that can be used. The payload runs as the user to whom the file belongs and
// could write it, too: it reports nothing but how it ended itself.
func (p *payload) exit() *exited {
	text, err := readFile(p.root, exitFile, 4096)
	if err != nil {
		return nil
	}
	return readExit(text)
}

func readExit(text []byte) *exited {
	var e exited
	if json.Unmarshal(text, &e) != nil || e.Exit < -1 || e.Exit > 255 || e.Signal < 0 || e.Signal > 64 ||
		e.WallMS < 0 || e.CPUMS < 0 || e.Disk < 0 || e.Disk > 1<<50 ||
		e.Started <= 0 || e.Started > 1<<40 || e.Finished < 0 || e.Finished > 1<<40 {
		return nil
	}
	e.Place = printable(e.Place, 100)
	return &e
}

func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// readFile reads a regular file of bounded size; what a payload may have put under its name (a pipe, a link that leads
// out) does not stop it.
func readFile(root *os.Root, name string, most int64) ([]byte, error) {
	f, err := openFile(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return text, err
}

func openFile(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", name)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); err == nil && ok && st.Nlink > 1 {
		err = fmt.Errorf("%s has another name elsewhere", name) // it may be another user's
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// writeFile replaces a file so that after a crash it is there whole or not at all.
func writeFile(root *os.Root, name string, text []byte) error {
	// two may write the same at a time
	return durable.File{Root: root, Name: name, Temporary: name + "." + rand.Text() + ".tmp"}.Write(durable.Text(text))
}

// writeJSON is writeFile of a record.
func writeJSON[T ticket | receipt](root *os.Root, name string, v T) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeFile(root, name, append(text, '\n'))
}

// alive lists the directories of payloads that have not been seen to end.
func (s *Slurm) alive() ([]string, error) {
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("slurm: %w", err)
	}
	var dirs []string
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		if e.IsDir() && dirName.MatchString(e.Name()) && !s.done[e.Name()] {
			dirs = append(dirs, e.Name())
		}
	}
	return dirs, nil
}
