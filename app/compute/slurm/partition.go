package slurm

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/quantity"
)

// minutes is the time limit that Slurm is asked for: the payload's, and what its end takes.
func (s *Slurm) minutes(wall time.Duration) int64 {
	return (seconds(wall) + seconds(s.o.Grace) + 90) / 60
}

// fits refuses a payload whose time limit no partition of it allows: Slurm would take it and never start it. A cluster
// that reports nothing refuses nothing here.
func (s *Slurm) fits(ctx context.Context, l compute.Limits) error {
	if l.Wall == 0 {
		return nil
	}
	args := append(s.clusters(), "--noheader", "--format=%P|%l")
	if s.o.Partition != "" {
		args = append(args, "--partition="+s.o.Partition)
	}
	out, err := s.run(ctx, "sinfo", args...)
	if err != nil {
		return nil
	}
	name, most, bounded := longest(out, s.o.Partition == "")
	if !bounded || s.minutes(l.Wall) <= most {
		return nil
	}
	return &compute.Refusal{Here: true,
		Reason: fmt.Sprintf("its wall time of %s needs %d minutes, and the partition %s of %s allows %d",
			quantity.FormatDuration(l.Wall), s.minutes(l.Wall), name, s.o.Name, most)}
}

// longest gives the partition that allows the most time, in minutes; bounded is false if one has no limit, or sinfo
// reports what cannot be read. Without a name the default partition is meant, which has a star; where none has, all
// are.
func longest(out string, byDefault bool) (name string, most int64, bounded bool) {
	starred := byDefault && strings.Contains(out, "*|")
	for line := range strings.Lines(out) {
		partition, limit, ok := strings.Cut(strings.TrimSpace(line), "|")
		if !ok || starred && !strings.HasSuffix(partition, "*") {
			continue
		}
		n, ok := minutesOf(limit)
		if !ok {
			return "", 0, false
		}
		if bounded = true; n >= most {
			name, most = printable(strings.TrimSuffix(partition, "*"), 60), n
		}
	}
	return name, most, bounded
}

// minutesOf reads a time as sinfo writes it: "1-12:00:00", "2:00:00", "30:00"; ok is false for "infinite" and the like.
func minutesOf(text string) (minutes int64, ok bool) {
	days, rest, has := strings.Cut(text, "-")
	if !has {
		days, rest = "0", text
	}
	parts := strings.Split(rest, ":")
	if len(parts) == 2 {
		parts = append([]string{"0"}, parts...)
	}
	if len(parts) != 3 {
		return 0, false
	}
	sum := int64(0)
	for i, part := range append([]string{days}, parts...) {
		n, err := strconv.ParseInt(part, 10, 32)
		if err != nil || n < 0 {
			return 0, false
		}
		sum += n * []int64{86400, 3600, 60, 1}[i]
	}
	return sum / 60, true
}
