package server

import (
	"sync"

	"github.com/stagepost/stagepost/job"
)

// leases keeps the records of jobs that workers outside hold, so that a report needs no read from the store. It is only a shortcut: what
// is not there, or is there under another epoch, is read; the commit compares epochs in any case.
type leases struct {
	mu   sync.Mutex // guards jobs
	jobs map[job.ID]job.Job
	most int
}

func newLeases(most int) *leases { return &leases{jobs: map[job.ID]job.Job{}, most: most} }

// put keeps records; when there is no room, any other goes.
func (l *leases) put(jobs ...job.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range jobs {
		if _, known := l.jobs[j.ID]; !known && len(l.jobs) >= l.most {
			for other := range l.jobs {
				delete(l.jobs, other)
				break
			}
		}
		l.jobs[j.ID] = j
	}
}

// get gives the records that are known under the epochs asked for; the others are zero.
func (l *leases) get(of []job.Lease) []job.Job {
	found := make([]job.Job, len(of))
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, lease := range of {
		if j, ok := l.jobs[lease.Job]; ok && j.Epoch == lease.Epoch {
			found[i] = j
		}
	}
	return found
}

// settle takes over what became of reports: jobs that stay with their worker are kept, the others go.
func (l *leases) settle(results []job.Result, worker string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range results {
		j := &results[i].Job
		if results[i].Err == nil && j.Worker == worker && !j.Ended {
			l.jobs[j.ID] = *j
		} else {
			delete(l.jobs, j.ID)
		}
	}
}
