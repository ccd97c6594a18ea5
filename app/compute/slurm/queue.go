package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/app/compute"
)

// row is a job in the output of squeue, sacct or scontrol.
type row struct {
	id     string
	name   string
	state  string // as it was printed
	reason string
	node   string
	start  time.Time
	end    time.Time

	exit, signal int // of an end, by sacct and scontrol; signal 0: none
	known        bool
	cpu          time.Duration // by sacct
	memory       int64         // bytes, by sacct
}

// view is one answer of squeue.
type view struct {
	begun time.Time
	asked map[string]bool
	rows  map[string][]row // by name
	odd   string           // a line that could not be read: what is missing here need not be missing in Slurm
}

// queueFormat has the reason last: it is the only field in which the separator can occur.
const (
	queueFormat = "%i|%T|%S|%e|%N|%j|%r"
	queueFields = 7
)

var number = regexp.MustCompile(`^[0-9]{1,18}$`)

// readQueue reads what squeue printed in queueFormat.
func readQueue(out string) (rows map[string][]row, odd string) {
	rows = map[string][]row{}
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "CLUSTER: ") { // with --clusters
			continue
		}
		f := strings.SplitN(line, "|", queueFields)
		if len(f) < queueFields || !number.MatchString(f[0]) || !jobName.MatchString(f[5]) {
			odd = line
			continue
		}
		rows[f[5]] = append(rows[f[5]], row{id: f[0], state: f[1], start: moment(f[2]), end: moment(f[3]),
			node: printable(f[4], 200), name: f[5], reason: f[6]})
	}
	return rows, odd
}

// moment reads a time as Slurm's commands print it here: seconds since 1970 (SLURM_TIME_FORMAT=%s), or, from those that
// know that variable not, RFC 3339 without a zone, in UTC.
func moment(text string) time.Time {
	text = strings.TrimSpace(text)
	if number.MatchString(text) {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 && n < 1<<40 {
			return time.Unix(n, 0).UTC()
		}
		return time.Time{}
	}
	t, err := time.Parse("2006-01-02T15:04:05", text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// queue asks squeue for many at a time: while one question is out, all others wait for its answer or for the next one.
type queue struct {
	ask func(ctx context.Context) (*view, error)
	now func() time.Time

	mu     sync.Mutex
	last   *view
	flight chan struct{} // closed when the question that is out is answered
	failed error         // of the question that was out last
}

// since gives an answer to a question that was put at t or later and asked for the name.
func (q *queue) since(ctx context.Context, t time.Time, name string) (*view, error) {
	for waited := false; ; waited = true {
		q.mu.Lock()
		if v := q.last; v != nil && !v.begun.Before(t) && (name == "" || v.asked[name]) {
			q.mu.Unlock()
			return v, nil
		}
		if err := q.failed; waited && q.flight == nil && err != nil {
			q.mu.Unlock()
			return nil, err
		}
		if q.flight == nil {
			q.flight, q.failed = make(chan struct{}), nil
			go q.fly(context.WithoutCancel(ctx), q.flight)
		}
		flight := q.flight
		q.mu.Unlock()
		select {
		case <-flight:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (q *queue) fly(ctx context.Context, done chan struct{}) {
	v, err := q.ask(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.flight, q.failed = nil, err; err == nil {
		q.last = v
	}
	close(done)
}

// mostNames bounds the argument of one squeue: Linux takes 128 KiB.
const mostNames = 1500

// askQueue asks for the payloads that have not ended, and for no other jobs: the names of those are others' words.
func (s *Slurm) askQueue(ctx context.Context) (*view, error) {
	v := &view{begun: s.now(), asked: map[string]bool{}, rows: map[string][]row{}}
	dirs, err := s.alive()
	if err != nil {
		return nil, err
	}
	names := make([]string, len(dirs))
	for i, dir := range dirs {
		names[i] = nameOf(dir)
		v.asked[names[i]] = true
	}
	for len(names) > 0 {
		n := min(len(names), mostNames)
		rows, odd, err := s.ask(ctx, names[:n])
		if err != nil {
			return nil, err
		}
		for name, r := range rows {
			v.rows[name] = append(v.rows[name], r...)
		}
		if odd != "" {
			v.odd = odd
			s.log.Warn("a line of squeue cannot be read", "line", printable(odd, 300))
		}
		names = names[n:]
	}
	return v, nil
}

func (s *Slurm) ask(ctx context.Context, names []string) (map[string][]row, string, error) {
	args := append(s.clusters(), "--noheader", "--all", "--states=all", "--user="+strconv.Itoa(os.Getuid()),
		"--name="+strings.Join(names, ","), "--format="+queueFormat)
	out, err := s.run(ctx, "squeue", args...)
	if err != nil {
		return nil, "", fmt.Errorf("the cluster does not answer: %w", err)
	}
	rows, odd := readQueue(out)
	return rows, odd, nil
}

// clusters gives the option that names the cluster, if sbatch is given one.
func (s *Slurm) clusters() []string {
	for _, extra := range s.o.Extra {
		if strings.HasPrefix(extra, "--clusters=") {
			return []string{extra}
		}
	}
	return nil
}

// named gives what squeue has of one payload, newly asked. Submit uses it to settle what became of an earlier try.
func (s *Slurm) named(ctx context.Context, name string) ([]row, error) {
	rows, odd, err := s.ask(ctx, []string{name})
	if err == nil && len(rows[name]) == 0 && odd != "" {
		err = fmt.Errorf("a line of squeue cannot be read: %q", printable(odd, 300))
	}
	if err != nil || len(rows[name]) > 0 {
		return rows[name], err
	}
	booked, err := s.booked(ctx, []string{name})
	if err != nil && !errors.Is(err, errNoAccounting) {
		return nil, err
	}
	return booked[name], nil
}

// pick gives the job of a payload out of those of its name: the one that has claimed it, else the oldest of those that
// have not ended, else the newest.
func pick(rows []row, claimed string) (r row, ok bool) {
	for _, candidate := range rows {
		if claimed != "" && candidate.id == claimed {
			return candidate, true
		}
		was, is := ok && over(r.state), over(candidate.state)
		switch {
		case !ok, was && !is, was && is && older(r.id, candidate.id), !was && !is && older(candidate.id, r.id):
			r, ok = candidate, true
		}
	}
	return r, ok
}

// over reports whether a job in the state has come to an end.
func over(state string) bool { return meant(state).standing == compute.Ended }

// older compares the numbers of jobs.
func older(a, b string) bool { return len(a) < len(b) || len(a) == len(b) && a < b }
