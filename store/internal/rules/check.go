package rules

import (
	"slices"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// checkNew returns why a new job is invalid, or nil.
func checkNew(c *job.Created) error {
	j := &c.Job
	invalid := func(format string, args ...any) error {
		return job.Errorf(job.Invalid, "create", j.ID, format, args...)
	}
	if required, err := job.Required(j.Requires...); err != nil || !slices.Equal(required, j.Requires) {
		return invalid("it requires %q, which are no labels in order", j.Requires)
	}
	if err := job.CheckWords(j.Words); err != nil {
		return invalid("%w", err)
	}
	switch {
	case j.Priority < job.FirstPriority || j.Priority > job.LastPriority:
		return invalid("priority %d is not within %d..%d", j.Priority, job.FirstPriority, job.LastPriority)
	case j.Bytes < 0 || j.Bytes > job.MostBytes:
		return invalid("its %d bytes are not within 0..%d", j.Bytes, int64(job.MostBytes))
	case c.Event.Job != j.ID:
		return invalid("its first event is one of %q", c.Event.Job)
	}
	for _, n := range [...]int{j.Starts, j.Attempts, j.Retries} {
		if !isCount(n) {
			return invalid("the count %d is not within 0..%d", n, job.MostCount)
		}
	}
	if err := checkTexts(c); err != nil {
		return err
	}
	return checkPosted("create", c.Outbox)
}

// checkTexts returns why a new job cannot be found by its texts, or nil.
func checkTexts(c *job.Created) error {
	j := &c.Job
	for _, t := range [...]named{{"id", string(j.ID)}, {"parent", string(j.Parent)}, {"key", j.Key}, {"owner", j.Owner},
		{"worker", j.Worker}} {
		if len(t.text) > job.MostText {
			return t.long("create", j.ID, job.MostText)
		}
	}
	if t := (named{"kind", string(j.Kind)}); len(t.text) > job.MostName {
		return t.long("create", j.ID, job.MostName)
	}
	return checkChanging("create", j.ID, j.State, j.Group, j.Cause, j.Tags, c.Chain)
}

// checkChanging returns why a job cannot be found by the texts that changes set, or nil. chain is the claim that is
// requested, or nil.
func checkChanging(
	op string, of job.ID, state lifecycle.State, group, cause string, tags []string, chain *job.Chain,
) error {
	worker := ""
	if chain != nil {
		worker = chain.Worker
	}
	for _, t := range [...]named{{"group", group}, {"cause", cause}, {"worker", worker}} {
		if len(t.text) > job.MostText {
			return t.long(op, of, job.MostText)
		}
	}
	for _, tag := range tags {
		if len(tag) > job.MostText {
			return named{"tag", tag}.long(op, of, job.MostText)
		}
	}
	if len(state) > job.MostName {
		return named{"state", string(state)}.long(op, of, job.MostName)
	}
	return nil
}

// checkSet returns why a change cannot set its texts, or nil. A record that has a longer text can be changed otherwise.
func checkSet(c *job.Change) error {
	var group, cause string
	if c.Set.Group != nil {
		group = *c.Set.Group
	}
	if c.Set.Cause != nil {
		cause = *c.Set.Cause
	}
	return checkChanging("commit", c.Job, c.To.State, group, cause, c.Set.Tags, c.Chain)
}

// named is a text by which records are found, with what it is.
type named struct{ what, text string }

// long is the error of a text that is longer than most bytes.
func (n named) long(op string, of job.ID, most int) error {
	if len(of) > job.MostText {
		of = ""
	}
	return job.Errorf(job.Invalid, op, of, "its %s, %.40q..., has %d bytes; at most %d are allowed", n.what, n.text,
		len(n.text), most)
}

// checkPosted returns why new messages cannot be written, or nil.
func checkPosted(op string, messages []job.Message) error {
	for i := range messages {
		m := &messages[i]
		for _, t := range [...]named{{"key", m.Key}, {"topic", m.Topic}, {"job", string(m.Job)}} {
			if len(t.text) > job.MostText {
				return job.Errorf(job.Invalid, op, "", "a message: %s", job.Reason(t.long(op, "", job.MostText)))
			}
		}
	}
	return checkMessages(op, messages)
}

// checkScope returns why a hold cannot be written, or nil.
func checkScope(s *job.Scope) error {
	all := 0
	for _, t := range [...]named{{"kind", string(s.Kind)}, {"state", string(s.State)}, {"group", s.Group},
		{"owner", s.Owner}, {"tag", s.Tag}, {"job", string(s.Job)}} {
		if all += len(t.text); len(t.text) > job.MostText {
			return t.long("hold", "", job.MostText)
		}
	}
	if all > job.MostScope {
		return job.Errorf(job.Invalid, "hold", "", "the texts of its scope have %d bytes; at most %d are allowed", all,
			job.MostScope)
	}
	return nil
}

// checkMessages returns why messages cannot be written, or nil.
func checkMessages(op string, messages []job.Message) error {
	for i := range messages {
		if m := &messages[i]; !isCount(m.Attempts) {
			return job.Errorf(job.Invalid, op, m.Job, "the attempts of message %q, %d, are not within 0..%d", m.Key,
				m.Attempts, job.MostCount)
		}
	}
	return nil
}

// checkTasks returns why tasks of a job cannot be written, or nil.
func checkTasks(of job.ID, tasks []job.Task) error {
	for i := range tasks {
		t := &tasks[i]
		if len(t.Name) > job.MostText {
			return named{"task", t.Name}.long("commit", of, job.MostText)
		}
		if !isCount(t.Attempts) {
			return job.Errorf(job.Invalid, "commit", of, "the attempts of task %q, %d, are not within 0..%d", t.Name,
				t.Attempts, job.MostCount)
		}
	}
	return nil
}

func isCount(n int) bool { return n >= 0 && n <= job.MostCount }
