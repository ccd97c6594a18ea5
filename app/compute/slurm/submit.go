package slurm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/app/compute"
)

// Submit is part of [compute.Executor].
func (s *Slurm) Submit(ctx context.Context, p *compute.Parcel) (compute.Notice, error) {
	dir, err := dirOf(p.Ticket)
	if err != nil {
		return compute.Notice{}, &compute.Refusal{Reason: err.Error()}
	}
	if p.Instance != "" && p.Instance != s.instance {
		return s.lost("the directory of " + s.o.Name +
			" is another one than when the parcel was first sent: it may have run then"), nil
	}
	if s.gone(dir) {
		return s.lost(tombstone), nil
	}
	release, err := s.hold(ctx, dir)
	if err != nil {
		return compute.Notice{}, err
	}
	if s.taken(dir) {
		release()
		s.abandon(ctx, dir)
		return s.lost(removed), nil
	}
	if err = s.take(ctx, dir, p); err == nil {
		err = s.start(ctx, dir, p)
	}
	release()
	if err != nil {
		return compute.Notice{}, err
	}
	defer s.hurry()
	return s.Query(ctx, compute.Handle{Ticket: p.Ticket, Instance: s.instance})
}

const tombstone = "it ended, the server had its results, and its files were removed"

func (s *Slurm) lost(reason string) compute.Notice {
	return compute.Notice{Standing: compute.Lost, Instance: s.instance, Reason: reason}
}

// take sees to it that the payload's directory is there. The caller holds its lock.
func (s *Slurm) take(ctx context.Context, dir string, p *compute.Parcel) error {
	if _, err := s.root.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err // nil: it is
	}
	if err := s.check(p); err != nil {
		return err
	}
	if err := s.fits(ctx, p.Limits); err != nil {
		return err
	}
	if err := s.stage(ctx, dir, p); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %w", compute.ErrNotSent, err)
	}
	s.step("recorded")
	return nil
}

// start has Slurm run a payload that it has not been given, or settles whether it has. The caller holds the directory's
// lock.
func (s *Slurm) start(ctx context.Context, dir string, parcel *compute.Parcel) error {
	p, err := s.enter(parcel.Ticket)
	if errors.Is(err, compute.ErrNoPayload) {
		return &compute.Refusal{Reason: "another parcel has the same job and attempt here, with another secret",
			Here: true}
	}
	if err != nil {
		return err
	}
	defer p.close()
	if _, taken := p.claimed(); taken || p.receipt.ID != "" || p.has(killedFile) {
		return nil
	}
	rows, err := s.settle(ctx, p)
	if err != nil {
		return err
	}
	if r, ok := pick(rows, ""); ok {
		return s.receive(p, r.id)
	}
	s.step("asked")
	out, err := s.run(ctx, "sbatch", s.arguments(dir, p.ticket.Limits)...)
	s.step("sent")
	if err != nil {
		return s.unsent(p, err)
	}
	id, _, _ := strings.Cut(strings.TrimSpace(out), ";") // with --clusters: 12;name
	if !number.MatchString(id) {
		return fmt.Errorf("sbatch gave no number of a job: %q", printable(out, 200))
	}
	return s.receive(p, id)
}

// settle asks what Slurm has of a payload that an earlier try may have handed over. A new one has no file sent, and
// need not be asked for.
func (s *Slurm) settle(ctx context.Context, p *payload) ([]row, error) {
	if !p.has(sentFile) {
		if err := s.mark(p); err != nil {
			return nil, err
		}
		return nil, writeFile(p.root, sentFile, nil)
	}
	return s.named(ctx, nameOf(p.dir))
}

// receive writes Slurm's id down.
func (s *Slurm) receive(p *payload, id string) error {
	p.receipt = receipt{ID: id, At: s.now().UTC()}
	if err := writeJSON(p.root, slurmFile, p.receipt); err != nil {
		return fmt.Errorf("slurm: payload %s: %w", p.dir, err)
	}
	s.step("received")
	return nil
}

// arguments gives the options of sbatch. Nothing in them comes from a user but the numbers of the limits.
func (s *Slurm) arguments(dir string, l compute.Limits) []string {
	here := path.Join(s.o.Dir, dir)
	args := []string{
		"--parsable", "--job-name=" + nameOf(dir), "--comment=stagepost " + s.instance, "--no-requeue", "--export=ALL",
		"--nodes=1", "--ntasks=1",
		"--chdir=" + here, "--input=/dev/null", "--output=" + path.Join(here, slurmLog), "--open-mode=append",
	}
	add := func(name, value string) {
		if value != "" {
			args = append(args, name+"="+value)
		}
	}
	add("--partition", s.o.Partition)
	add("--account", s.o.Account)
	add("--qos", s.o.QOS)
	if l.Wall > 0 { // batch.sh ends it to the second; Slurm, which counts in minutes, comes after
		add("--time", strconv.FormatInt(s.minutes(l.Wall), 10))
	}
	if l.Memory > 0 {
		add("--mem", strconv.FormatInt(kibi(l.Memory), 10)+"K")
	}
	if l.Cores > 0 {
		add("--cpus-per-task", strconv.Itoa(int(math.Ceil(min(l.Cores, 1<<20)))))
	}
	args = append(args, s.o.Extra...)
	return append(args, "--", path.Join(here, batchFile))
}

// What sbatch prints when it will never take a job as it is, and when Slurm cannot have got it (slurm_errno.h; both in
// small letters).
var (
	refused = []string{
		"invalid partition", "invalid account", "invalid qos", "invalid job array", "invalid wckey", "invalid feature",
		"invalid constraint", "invalid generic resource",
		"invalid reservation", "invalid node name", "invalid license", "invalid --", "invalid argument",
		"unrecognized option", "node configuration is not available",
		"memory specification", "node count specification", "cpu count specification",
		"requested time limit is invalid", "time limit specification", "more processors requested",
		"violates accounting/qos policy", "access/permission denied", "group not permitted", "access denied",
		"required partition not available",
	}
	unreached = []string{
		"unable to contact slurm controller (connect failure)", "connection refused", "no address associated",
		"unable to resolve", "could not establish a configuration source",
		"munge", "authentication", "slurmctld is in standby", "temporarily unable to accept job", "maxjobcount",
		"submitjoblimit", "maxsubmitjob", "submit limit has been reached",
	}
)

// unsent checks a failure of sbatch. Where it cannot be in the queue, the payload is withdrawn, so that another
// executor may have it: even a job that appears late finds nothing to run.
func (s *Slurm) unsent(p *payload, err error) error {
	var f *failure
	if !errors.As(err, &f) {
		return err
	}
	text := strings.ToLower(f.message)
	says := func(phrase string) bool { return strings.Contains(text, phrase) }
	judged := error(nil)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case !f.started, slices.ContainsFunc(unreached, says):
		judged = fmt.Errorf("%w: %w", compute.ErrNotSent, err)
	case slices.ContainsFunc(refused, says):
		judged = &compute.Refusal{Reason: "the cluster refuses it: " + printable(f.Error(), 500), Here: true}
	default:
		return err
	}
	withdrawn, failed := s.withdraw(p)
	if failed != nil || !withdrawn {
		return errors.Join(err, failed) // it runs after all, or may: Check reports
	}
	return judged
}

// withdraw removes a payload that no run has taken; false: one has. The caller holds the directory's lock.
func (s *Slurm) withdraw(p *payload) (bool, error) {
	if ok, err := p.claim(); !ok {
		return false, err
	}
	return true, s.discard(p.dir)
}
