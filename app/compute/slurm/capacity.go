package slurm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/app/compute"
)

// Capacity is part of [compute.Executor].
func (s *Slurm) Capacity(ctx context.Context) (compute.Capacity, error) {
	args := append(s.clusters(), "--noheader", "--format=%P|%a|%C")
	if s.o.Partition != "" {
		args = append(args, "--partition="+s.o.Partition)
	}
	out, err := s.run(ctx, "sinfo", args...)
	if err != nil {
		return compute.Capacity{}, err
	}
	v, err := s.queue.since(ctx, s.now().Add(-s.o.Poll), "")
	if err != nil {
		return compute.Capacity{}, err
	}
	c, err := readRoom(out, s.o.Partition == "")
	if err != nil {
		return compute.Capacity{}, err
	}
	here, waiting, words := census(v)
	room := compute.Capacity{Instance: s.instance, Services: s.o.Services, Waiting: waiting, Kind: "slurm",
		Sandbox: s.sandbox(), Draining: !c.up, Events: true}
	if usable := c.total - c.other; usable > 0 {
		room.Load = 100 * float64(c.allocated) / float64(usable)
	}
	switch {
	case s.o.Slots > 0:
		room.Slots, room.Free = s.o.Slots, max(0, s.o.Slots-here)
	case s.o.Slots == 0:
		room.Slots, room.Free = c.total-c.other, max(0, c.idle-waiting)
	}
	room.Detail = fmt.Sprintf("partition %s: %d of %d CPUs idle, %d out of use", c.partition, c.idle, c.total, c.other)
	if !c.up {
		room.Detail += "; it is not up"
	}
	if words != "" {
		room.Detail += "; waiting: " + words
	}
	return room, nil
}

// processors are those of a partition.
type processors struct {
	partition                     string
	up                            bool
	allocated, idle, other, total int
}

// readRoom reads what sinfo printed: partition, whether it is up, and CPUs as allocated/idle/other/total, a line for
// each state of a partition. Without a name, the default partition is meant, which has a star; where none has, all are.
func readRoom(out string, byDefault bool) (c processors, err error) {
	lines := strings.FieldsFunc(out, func(r rune) bool { return r == '\n' })
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "CLUSTER: ") })
	starred := byDefault && slices.ContainsFunc(lines, func(line string) bool {
		name, _, _ := strings.Cut(line, "|")
		return strings.HasSuffix(name, "*")
	})
	var names []string
	for _, line := range lines {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 3 {
			return c, fmt.Errorf("sinfo cannot be understood: %q", printable(line, 200))
		}
		if starred && !strings.HasSuffix(f[0], "*") {
			continue
		}
		counts := strings.Split(f[2], "/")
		if len(counts) != 4 {
			return c, fmt.Errorf("sinfo cannot be understood: %q", printable(line, 200))
		}
		for i, to := range []*int{&c.allocated, &c.idle, &c.other, &c.total} {
			n, err := strconv.Atoi(counts[i])
			if err != nil || n < 0 || n > 1<<30 {
				return c, fmt.Errorf("sinfo cannot be understood: %q", printable(line, 200))
			}
			*to += n
		}
		c.up = c.up || f[1] == "up"
		if name := printable(strings.TrimSuffix(f[0], "*"), 60); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return c, fmt.Errorf("there is no such partition")
	}
	c.partition = strings.Join(names, ",")
	return c, nil
}

// census counts our payloads in the queue, and for what those that wait do.
func census(v *view) (here, waiting int, words string) {
	counts := map[string]int{}
	for _, rows := range v.rows {
		for _, r := range rows {
			switch meant(r.state).standing {
			case compute.Waits:
				here, waiting = here+1, waiting+1
				counts[printable(r.reason, 60)]++
			case compute.Works:
				here++
			}
		}
	}
	var list []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%d %s", counts[reason], reason))
	}
	return here, waiting, strings.Join(list, ", ")
}
