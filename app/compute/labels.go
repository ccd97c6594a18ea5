package compute

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/job"
)

// demand is what a job requires of an executor: that it serves a service, and has labels.
type demand struct {
	service string
	labels  []string
}

func demandOf(j *job.Job, s *Spec) demand { return demand{j.Group, s.AgentLabels} }

// key is the same for the same demand.
func (d demand) key() string { return strings.Join(append([]string{d.service}, d.labels...), "\n") }

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
		if !r.suited(demand{d.service, []string{l}}) {
			lacked = append(lacked, l)
		}
	}
	if len(lacked) > 0 && len(d.labels) > 1 {
		text += "; none has " + strings.Join(lacked, " or ")
	}
	return text
}
