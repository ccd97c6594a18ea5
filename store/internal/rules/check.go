package rules

import (
	"slices"

	"github.com/stagepost/stagepost/job"
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
	return checkMessages("create", c.Outbox)
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
		if t := &tasks[i]; !isCount(t.Attempts) {
			return job.Errorf(job.Invalid, "commit", of, "the attempts of task %q, %d, are not within 0..%d", t.Name,
				t.Attempts, job.MostCount)
		}
	}
	return nil
}

func isCount(n int) bool { return n >= 0 && n <= job.MostCount }
