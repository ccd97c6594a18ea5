package slurm

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"
)

// accounting is what is known of Slurm's accounting.
type accounting struct {
	mu     sync.Mutex
	absent bool      // there is no sacct
	until  time.Time // it was off when it was asked last; it is asked again at this time
}

// errNoAccounting reports that the cluster keeps no accounts: nothing can be learnt of jobs that slurmctld has
// forgotten.
var errNoAccounting = errors.New("the cluster keeps no accounts")

const (
	bookFormat = "JobIDRaw,State,ExitCode,Start,End,NodeList,TotalCPU,MaxRSS,JobName"
	bookFields = 9
)

// booked asks the accounting for jobs by their names. errNoAccounting: there is none, or it is off.
func (s *Slurm) booked(ctx context.Context, names []string) (map[string][]row, error) {
	s.accounting.mu.Lock()
	off := s.accounting.absent || s.now().Before(s.accounting.until)
	s.accounting.mu.Unlock()
	if off {
		return nil, errNoAccounting
	}
	args := append(s.clusters(), "--noheader", "--parsable2", "--duplicates", "--starttime=now-30days",
		"--name="+strings.Join(names, ","), "--format="+bookFormat)
	out, err := s.run(ctx, "sacct", args...)
	var f *failure
	if errors.As(err, &f) && strings.Contains(strings.ToLower(f.message), "accounting storage is disabled") {
		s.accounting.mu.Lock()
		s.accounting.until = s.now().Add(10 * time.Minute)
		s.accounting.mu.Unlock()
		return nil, errNoAccounting
	}
	if err != nil {
		return nil, err
	}
	return readBook(out), nil
}

// readBook reads what sacct printed in bookFormat. The lines of steps ("12.batch") add to their job what it used.
func readBook(out string) map[string][]row {
	rows := map[string][]row{}
	names := map[string]string{} // of jobs by id
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimRight(line, "\n"), "|", bookFields)
		if len(f) < bookFields {
			continue
		}
		id, step, isStep := strings.Cut(f[0], ".")
		if !number.MatchString(id) {
			continue
		}
		if isStep {
			if of := rows[names[id]]; step == "batch" && len(of) > 0 {
				last := &of[len(of)-1]
				last.memory, last.cpu = size(f[7]), max(last.cpu, span(f[6]))
			}
			continue
		}
		if !jobName.MatchString(f[8]) {
			continue
		}
		r := row{id: id, state: f[1], start: moment(f[3]), end: moment(f[4]), node: printable(f[5], 200), name: f[8],
			cpu: span(f[6])}
		r.exit, r.signal, r.known = code(f[2])
		names[id] = f[8]
		rows[f[8]] = append(rows[f[8]], r)
	}
	return rows
}

// code reads "1:0" (exit code 1) and "0:9" (signal 9).
func code(text string) (exit, signal int, ok bool) {
	a, b, _ := strings.Cut(strings.TrimSpace(text), ":")
	exit, err := strconv.Atoi(a)
	if err != nil || exit < 0 || exit > 1<<16 {
		return 0, 0, false
	}
	if b != "" {
		if signal, err = strconv.Atoi(b); err != nil || signal < 0 || signal > 1<<10 {
			return 0, 0, false
		}
	}
	return exit, signal, true
}

// span reads a time of sacct: [days-][hours:]minutes:seconds[.fraction].
func span(text string) time.Duration {
	days, clock, found := strings.Cut(strings.TrimSpace(text), "-")
	if !found {
		days, clock = "0", days
	}
	n, err := strconv.Atoi(days)
	if err != nil || n < 0 || n > 36500 {
		return 0
	}
	seconds := float64(n) * 86400
	part := 1.0
	fields := strings.Split(clock, ":")
	if len(fields) > 3 {
		return 0
	}
	for i := len(fields) - 1; i >= 0; i, part = i-1, part*60 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil || !(v >= 0 && v < 1e6) {
			return 0
		}
		seconds += v * part
	}
	return time.Duration(seconds * float64(time.Second))
}

// size reads a size of sacct, which counts in 1024: "123456K", "1.5G", "0".
func size(text string) int64 {
	text = strings.TrimSpace(text)
	factor := 1.0
	if n := len(text) - 1; n >= 0 {
		if power := strings.IndexByte("KMGTP", text[n]); power >= 0 {
			text = text[:n]
			for ; power >= 0; power-- {
				factor *= 1024
			}
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v*factor < 1<<60) {
		return 0
	}
	return int64(v * factor)
}

// shown asks slurmctld for one job by its id: how it ended (ExitCode), which squeue does not report. It is asked once
// for each job that left no exit.json.
func (s *Slurm) shown(ctx context.Context, r row) row {
	out, err := s.run(ctx, "scontrol", append(s.clusters(), "--oneliner", "show", "job", r.id)...)
	if err != nil {
		return r
	}
	return readShow(out, r)
}

// readShow adds what scontrol printed of a job to what is known of it. Another job that has got its number since is not
// taken for it.
func readShow(out string, r row) row {
	fields := map[string]string{}
	for word := range strings.FieldsSeq(out) {
		if key, value, ok := strings.Cut(word, "="); ok {
			if _, twice := fields[key]; !twice {
				fields[key] = value
			}
		}
	}
	if fields["JobId"] != r.id || fields["JobName"] != r.name {
		return r
	}
	r.exit, r.signal, r.known = code(fields["ExitCode"])
	return r
}
