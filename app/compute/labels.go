package compute

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/job"
)

// demand is what a job requires of an executor: that it serves a service, has labels, and has space for its files.
type demand struct {
	service string
	labels  []string
	bytes   int64 // of its files
}

func demandOf(j *job.Job, s *Spec, d *Data) demand {
	bytes := int64(0)
	for _, f := range s.inputs(d) {
		bytes += f.Size
	}
	return demand{j.Group, s.AgentLabels, bytes}
}

// key is the same for the same service and labels.
func (d demand) key() string { return strings.Join(append([]string{d.service}, d.labels...), "\n") }

// fits reports whether an executor's disk has space for the files, as far as it is known. The caller has the registry's
// lock.
func (d demand) fits(m *member) bool { return m.room.Space == nil || d.bytes <= *m.room.Space }

// noSpace reports that the disk of none of some executors has space for the files.
func (d demand) noSpace(all []*member) string {
	most := int64(0)
	for _, m := range all {
		most = max(most, *m.room.Space)
	}
	which := "the disk of " + all[0].name + " has"
	if len(all) > 1 {
		which = "of the disks of " + names(all) + " none has more than"
	}
	return fmt.Sprintf("its files have %s, and %s %s for them", sizeText(d.bytes), which, sizeText(most))
}

// with states the labels behind a noun; none: nothing.
func (d demand) with() string {
	if len(d.labels) == 0 {
		return ""
	}
	return " with labels " + strings.Join(d.labels, ", ")
}

// Required gives the labels that a job requires: of its agent, and in older records of the server.
func (s *Spec) Required(j *job.Job) []string {
	return job.Tagged(slices.Concat(j.Requires, s.AgentLabels)...)
}

// labels are those of an executor: what the file of services has for it, and what it reported last. The caller has the
// lock.
func (r *registry) labels(name string) []string {
	all := r.app.options.AgentLabels[name]
	if m := r.members[name]; m != nil && len(m.room.Labels) > 0 {
		all = job.Tagged(slices.Concat(all, m.room.Labels)...)
	}
	return all
}

// suits reports whether an executor may get jobs: their service names it or none, and it has the labels. The caller has
// the lock.
func (r *registry) suits(d demand, name string) bool {
	s := r.app.services[d.service]
	named := s == nil || len(s.Agents) == 0 || slices.Contains(s.Agents, name)
	return named && len(job.Lacking(d.labels, r.labels(name))) == 0
}

// suited reports whether there is an executor that may get jobs, whether it answers or not. The caller has the lock.
func (r *registry) suited(d demand) bool {
	for name := range r.members {
		if r.suits(d, name) {
			return true
		}
	}
	for name := range r.app.options.AgentLabels {
		if r.suits(d, name) {
			return true
		}
	}
	return false
}

// unlabelled reports that no executor has the labels that a job requires; "" if one has. The caller has the lock.
func (r *registry) unlabelled(d demand) string {
	if len(d.labels) == 0 || r.suited(d) {
		return ""
	}
	text := fmt.Sprintf("no agent for %s%s", d.service, d.with())
	var lacked []string
	for _, l := range d.labels {
		if !r.suited(demand{service: d.service, labels: []string{l}}) {
			lacked = append(lacked, l)
		}
	}
	if len(lacked) > 0 && len(d.labels) > 1 {
		text += "; none has " + strings.Join(lacked, " or ")
	}
	return text
}
