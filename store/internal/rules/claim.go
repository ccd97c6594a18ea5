package rules

import (
	"time"

	"github.com/stagepost/stagepost/job"
)

// CheckClaim returns why a claim is invalid, or nil.
func CheckClaim(c *job.Claim) error {
	if c.Worker == "" {
		return job.Errorf(job.Invalid, "claim", "", "the worker of the claim is missing")
	}
	if len(c.Worker) > job.MostText {
		return named{"worker", c.Worker}.long("claim", "", job.MostText)
	}
	return nil
}

// Claim leases the jobs that a claim was granted to its worker, in order. It returns their records, which are valid
// until the writes are reset.
func Claim(w *Writes, c *job.Claim, granted []job.ID) ([]*job.Job, error) {
	m := w.mark()
	w.answer = w.answer[:0]
	for _, id := range granted {
		before, err := w.job(id)
		if err != nil {
			w.back(m)
			return nil, err
		}
		j := w.draft(before, c.Now)
		j.after.Version++
		j.after.Due, j.after.Changed = time.Time{}, c.Now
		take(j.After, c.Worker, c.Now.Add(c.Lease))
		w.add(j)
		w.answer = append(w.answer, j.After)
	}
	return w.answer, nil
}

// take is what each claim does to a record.
func take(j *job.Job, worker string, until time.Time) {
	j.Worker, j.Until = worker, until
	j.Epoch++
	j.Starts++
}

// Renew extends leases as [job.Claims] defines, and returns those that have ended. A record that cannot be read does
// not prevent the renewal of others.
func Renew(w *Writes, r *job.Renewal) (lost []job.Lease) {
	for _, lease := range r.Leases {
		before, err := w.job(lease.Job)
		if err != nil || before.Epoch != lease.Epoch || before.Worker != r.Worker || before.Worker == "" {
			lost = append(lost, lease)
			continue
		}
		j := w.draft(before, r.Now)
		j.after.Until = r.Now.Add(r.Lease)
		w.add(j)
	}
	return lost
}
