package crash_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/store/crash"
)

// The control of the enumerator: the job transitions of Merritt's queue as its transition document lists their
// writes, one after another, on a map of nodes. The lock is ephemeral: it is gone after a crash.

// nodes are the nodes of job 1 and its batch. References have no data.
type nodes map[string]string

// write sets a node, or deletes it when it begins with "-".
type write string

// in gives the nodes of a job in the state, with the priority its record and its reference have.
func in(state, priority string) nodes {
	n := nodes{"jobs/1/configuration": "", "jobs/1/ark": "", "jobs/1/status": state, "jobs/1/priority": priority}
	n["states/"+state+"/"+priority] = ""
	n["batch/"+list(state)] = ""
	return n
}

// list is the batch's list in which a job of the state belongs.
func list(state string) string {
	if state == "failed" || state == "completed" {
		return state
	}
	return "processing"
}

// transition is one of the document's: from a state by writes.
type transition struct {
	name   string
	from   nodes
	writes []write
}

// moves writes a transition as the document does: status, old reference, new reference, batch lists if they change,
// lock.
func moves(from, to, before, after string, locked bool, more ...write) transition {
	t := transition{name: from + " to " + to, from: in(from, before), writes: more}
	t.writes = append(t.writes, write("jobs/1/status="+to), write("-states/"+from+"/"+before),
		write("states/"+to+"/"+after))
	if list(from) != list(to) {
		t.writes = append(t.writes, write("-batch/"+list(from)), write("batch/"+list(to)))
	}
	if locked {
		t.from["jobs/1/lock"] = ""
		t.writes = append(t.writes, "-jobs/1/lock")
	}
	return t
}

// document lists the 21 transitions. The numbers that estimating and downloading find out, and the working directory
// that goes before a completed job, are written in the transitions that follow them.
func document() []transition {
	deletes := func(from string) transition {
		t := transition{name: from + " to deleted", from: in(from, "10")}
		for _, node := range []string{"configuration", "status", "priority", "ark"} {
			t.writes = append(t.writes, write("-jobs/1/"+node))
		}
		t.writes = append(t.writes, write("-states/"+from+"/10"), write("-batch/"+list(from)))
		return t
	}
	purge := transition{name: "completed to deleted", from: in("completed", "10"),
		writes: []write{"-directory", "-states/completed/10"}}
	purge.from["directory"] = ""
	wrong := moves("downloading", "failed", "10", "10", true)
	wrong.writes[1] = "-states/provisioning/10" // as the document has it: the reference is in downloading
	return []transition{
		moves("pending", "failed", "05", "05", true), moves("pending", "held", "05", "05", true),
		moves("pending", "estimating", "05", "05", true), moves("held", "pending", "05", "05", false),
		moves("estimating", "provisioning", "05", "10", true, "jobs/1/space_needed=1000", "jobs/1/priority=10"),
		moves("provisioning", "downloading", "10", "10", true),
		moves("downloading", "processing", "10", "10", true, "jobs/1/space_needed=1000", "jobs/1/priority=10"),
		wrong,
		moves("processing", "recording", "10", "10", true), moves("processing", "failed", "10", "10", true),
		moves("recording", "notify", "10", "10", true), moves("recording", "failed", "10", "10", true),
		moves("notify", "completed", "10", "10", true), moves("notify", "failed", "10", "10", true),
		moves("failed", "downloading", "10", "10", false), moves("failed", "processing", "10", "10", false),
		moves("failed", "recording", "10", "10", false), moves("failed", "notify", "10", "10", false),
		purge, deletes("failed"), deletes("held"),
	}
}

// inconsistencies returns the faults of the nodes.
func inconsistencies(n nodes) []string {
	var faults, references, lists []string
	records := 0
	for name := range maps.Keys(n) {
		switch {
		case strings.HasPrefix(name, "states/"):
			references = append(references, strings.TrimPrefix(name, "states/"))
		case strings.HasPrefix(name, "batch/"):
			lists = append(lists, strings.TrimPrefix(name, "batch/"))
		case strings.HasPrefix(name, "jobs/1/") && name != "jobs/1/lock":
			records++
		}
	}
	slices.Sort(references)
	status, exists := n["jobs/1/status"]
	_, whole := n["jobs/1/configuration"]
	_, kept := n["directory"]
	switch {
	case !exists && len(references)+len(lists) > 0:
		faults = append(faults, "dangling reference")
	case !exists && records > 0:
		faults = append(faults, "orphan node")
	case exists && !whole:
		faults = append(faults, "a job without its configuration")
	case exists && len(references) == 0 && (status != "completed" || kept):
		faults = append(faults, "lost: in no index")
	case len(references) > 1:
		faults = append(faults, "listed twice")
	case exists && len(references) == 1 && references[0] != status+"/"+n["jobs/1/priority"]:
		faults = append(faults, "misfiled as "+references[0])
	}
	if exists && !slices.Equal(lists, []string{list(status)}) {
		faults = append(faults, fmt.Sprintf("%s, in the batch's lists %v", status, lists))
	}
	return faults
}

// apply makes the writes under the fuse.
func apply(n nodes, writes []write, fuse *crash.Fuse) {
	for _, w := range writes {
		stopped := fuse.Call(func() error {
			if name, ok := strings.CutPrefix(string(w), "-"); ok {
				delete(n, name)
				return nil
			}
			name, value, _ := strings.Cut(string(w), "=")
			n[name] = value
			return nil
		})
		if stopped != nil {
			return
		}
	}
}

func TestSeparateWritesAreFound(t *testing.T) {
	var all crash.Report
	inside, bad, alone := 0, 0, []string{}
	for _, move := range document() {
		all.Add(crash.Windows(move.name, func(fuse *crash.Fuse) []string {
			n := maps.Clone(move.from)
			apply(n, move.writes, fuse)
			faults := inconsistencies(n)
			if fuse.Blown() && fuse.Side == crash.After && fuse.At < len(move.writes) {
				inside++
				if len(faults) > 0 {
					bad++
				}
			}
			if !fuse.Blown() && len(faults) > 0 {
				alone = append(alone, move.name)
			}
			return faults
		}))
	}
	t.Logf("separate writes: %d of %d windows inside a transition are inconsistent (both sides of each write: %d of %d)",
		bad, inside, all.Inconsistent, all.Windows)
	if inside != 84 || bad < 60 || all.Inconsistent == 0 {
		t.Errorf("%d of %d windows are inconsistent; the enumerator is blind", bad, inside)
	}
	if want := []string{"downloading to failed"}; !slices.Equal(slices.Compact(alone), want) {
		t.Errorf("inconsistent without a crash: %v, want %v", alone, want)
	}
}

// The same writes as one: nothing is left to find.
func TestOneWriteIsClean(t *testing.T) {
	for _, move := range document() {
		if move.name == "downloading to failed" {
			continue // wrong by itself
		}
		report := crash.Windows(move.name, func(fuse *crash.Fuse) []string {
			n := maps.Clone(move.from)
			_ = fuse.Call(func() error { apply(n, move.writes, &crash.Fuse{}); return nil })
			return inconsistencies(n)
		})
		if report.Windows != 2 || report.Inconsistent > 0 {
			t.Errorf("%s: %v", report, report.Faults)
		}
	}
}
