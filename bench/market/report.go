package main

import (
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// report writes what was measured as Markdown. It returns an error if a system failed, after the rest.
func (r *runner) report(out io.Writer, args []string) error {
	var b strings.Builder
	r.heading(&b, args)
	if r.count {
		r.syncTable(&b)
	} else {
		r.rateTable(&b)
		r.idleTable(&b)
	}
	for _, name := range slices.Sorted(maps.Keys(r.skipped)) {
		fmt.Fprintf(&b, "- not measured: `%s`: %s\n", name, r.skipped[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.failed)) {
		for _, failure := range r.failed[name] {
			fmt.Fprintf(&b, "- failed: `%s`, %s\n", name, firstLine(failure))
		}
	}
	if r.cut != "" {
		fmt.Fprintf(&b, "- incomplete: %s\n", r.cut)
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return err
	}
	if len(r.failed) > 0 {
		return fmt.Errorf("%d systems failed", len(r.failed))
	}
	return nil
}

func firstLine(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return first
}

func (r *runner) heading(b *strings.Builder, args []string) {
	command := strings.TrimSpace("go -C bench/market run . " + strings.Join(args, " "))
	fmt.Fprintf(b, "%s UTC, %s", r.begun.UTC().Format("2006-01-02 15:04"), machine())
	if r.commit != "" {
		fmt.Fprintf(b, ", revision %s", r.commit)
	}
	for _, version := range serverVersions() {
		fmt.Fprintf(b, ", %s", version)
	}
	fmt.Fprintf(b, "; `%s`, %v.\n", command, time.Since(r.begun).Round(time.Second))
	if len(r.probes) > 0 {
		fmt.Fprintf(b, "Sync probe, one caller: %.0f a second at the median, %.0f to %.0f.\n",
			median(r.probes), slices.Min(r.probes), slices.Max(r.probes))
	}
	if r.others > quiet {
		fmt.Fprintf(b, "**Busy machine**: other processes used %.0f %% of the processors during the run. Rates and "+
			"latencies are no results. Nor is a ratio with a question mark: it is of fewer than three rounds, or they "+
			"differ by more than 25 %%. Processor time is valid to one digit.\n", 100*r.others)
	} else {
		fmt.Fprintf(b, "Quiet machine: other processes used %.0f %% of the processors during the run.\n", 100*r.others)
	}
	b.WriteByte('\n')
}

// quiet is the part of the processors that other processes may use on a machine whose figures are results.
const quiet = 0.05

// ratio is the median of the ratios of some rounds, with a question mark if it is no result: docs/performance.md.
func (r *runner) ratio(rounds []float64) string {
	if len(rounds) == 0 {
		return "-"
	}
	middle := median(rounds)
	if r.others > quiet && (len(rounds) < 3 || slices.Max(rounds)-slices.Min(rounds) > middle/4) {
		return number(middle) + "?"
	}
	return number(middle)
}

// serverVersions asks the servers that are installed.
func serverVersions() (all []string) {
	if dir, err := postgresPrograms(); err == nil {
		if text, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output(); err == nil {
			fields := strings.Fields(string(text)) // postgres (PostgreSQL) 15.18 (Debian ...)
			all = append(all, "PostgreSQL "+fields[min(2, len(fields)-1)])
		}
	}
	if path, err := programs["redis-server"](); err == nil {
		if text, err := exec.Command(path, "--version").Output(); err == nil {
			_, version, _ := strings.Cut(string(text), "v=")
			version, _, _ = strings.Cut(version, " ")
			all = append(all, "Redis "+version)
		}
	}
	return all
}

// rateTable has a row for each system: the median rate, and how many times that rate Stagepost has: the median of the
// ratios of each round.
func (r *runner) rateTable(b *strings.Builder) {
	b.WriteString("| J8 jobs a second |")
	for _, c := range r.callers {
		fmt.Fprintf(b, " c=%d |", c)
	}
	fmt.Fprintf(b, " Stagepost / it | CPU ms a job, c=%d |\n|---|%s---|---|\n", r.most(),
		strings.Repeat("---|", len(r.callers)))
	if len(r.probes) > 0 {
		fmt.Fprintf(b, "| sync probe: 8 syncs of one caller | %.0f |%s | |\n", median(r.probes)/8,
			strings.Repeat(" |", len(r.callers)-1))
	}
	for _, y := range r.chosen() {
		if y.poll > 0 || r.skipped[y.name] != "" {
			continue
		}
		fmt.Fprintf(b, "| %s |", y.label())
		var ratios []string
		for _, c := range r.callers {
			rates, times := r.compared(y.name, c)
			cell := "-"
			if len(rates) > 0 {
				cell = number(median(rates))
			}
			fmt.Fprintf(b, " %s |", cell)
			ratios = append(ratios, r.ratio(times))
		}
		if y.name == systems[0].name {
			ratios = []string{"1"}
		}
		fmt.Fprintf(b, " %s | %s |\n", strings.Join(ratios, ", "), r.cpu(y.name))
	}
	b.WriteByte('\n')
}

// most is the largest number of callers.
func (r *runner) most() int { return slices.Max(r.callers) }

// compared returns the rates of a system, and for each round in which both were measured how many times that rate
// Stagepost had.
func (r *runner) compared(name string, callers int) (rates, times []float64) {
	own := r.rates[key{systems[0].name, callers}]
	for round, o := range r.rates[key{name, callers}] {
		if o.Rate == 0 {
			continue
		}
		rates = append(rates, o.Rate)
		if round < len(own) && own[round].Rate > 0 {
			times = append(times, own[round].Rate/o.Rate)
		}
	}
	return rates, times
}

// cpu is the median processor time of a job with the most callers.
func (r *runner) cpu(name string) string {
	var all []float64
	for _, o := range r.rates[key{name, r.most()}] {
		if o.Rate > 0 {
			all = append(all, float64(o.CPU)/float64(time.Millisecond))
		}
	}
	if len(all) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", median(all))
}

// idleTable has the times from submission to start.
func (r *runner) idleTable(b *strings.Builder) {
	b.WriteString("| submit to start, idle | p50 ms | p99 ms | jobs |\n|---|---|---|---|\n")
	for _, y := range r.chosen() {
		if o, ok := r.idle[y.name]; ok {
			ms := func(p int) string {
				return fmt.Sprintf("%.2f", float64(percentile(o.Starts, p))/float64(time.Millisecond))
			}
			fmt.Fprintf(b, "| %s | %s | %s | %d |\n", y.label(), ms(50), ms(99),
				len(o.Starts))
		}
	}
	b.WriteByte('\n')
}

// syncTable has how often a file was synced for a job.
func (r *runner) syncTable(b *strings.Builder) {
	b.WriteString("| | syncs a J8, one caller |\n|---|---|\n")
	for _, y := range r.chosen() {
		if o, ok := r.idle[y.name]; ok {
			fmt.Fprintf(b, "| %s | %.1f |\n", y.label(), o.SyncsPerJob)
		}
	}
	b.WriteByte('\n')
}

// number has two significant digits below 10, and no fraction from 10.
func number(x float64) string {
	if x < 10 {
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// median of an even number of values is the mean of the two in the middle.
func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// percentile is the smallest value that p percent of all do not exceed; 0 of none.
func percentile(all []time.Duration, p int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}
