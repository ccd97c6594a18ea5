package rules

import "github.com/stagepost/stagepost/job"

// mostBytes is how many bytes of specs and data an answer has at most before its last job, as [job.Jobs] and
// [job.Claims] define.
const mostBytes = 8 << 20

// Size returns what a job counts towards the bytes of an answer.
func Size(j *job.Job) int { return len(j.Spec) + len(j.Data) }

// Page collects the jobs of a page.
type Page struct {
	Jobs []job.Job

	limit, bytes int
}

// NewPage returns an empty page for a query.
func NewPage(q interface{ PageSize() int }) Page { return Page{limit: q.PageSize()} }

// Add adds a job, or returns false if the page is full: the job belongs to the next one.
func (p *Page) Add(j *job.Job) bool {
	if len(p.Jobs) == p.limit || p.bytes >= mostBytes {
		return false
	}
	p.Jobs = append(p.Jobs, *j)
	p.bytes += Size(j)
	return true
}

// InParts makes a claim in parts of up to n jobs, until it has N jobs, there are no more, or they are large.
func InParts(c *job.Claim, n int, claim func(*job.Claim) ([]job.Job, error)) (all []job.Job, err error) {
	if c.N <= n {
		return claim(c)
	}
	for bytes := 0; len(all) < c.N && bytes < mostBytes; {
		part := *c
		part.N = min(n, c.N-len(all))
		jobs, err := claim(&part)
		if err != nil {
			return nil, err
		}
		for i := range jobs {
			jobs[i].Own() // the next part uses the memory of this one
			bytes += Size(&jobs[i])
		}
		if all = append(all, jobs...); len(jobs) < part.N {
			break
		}
	}
	return all, nil
}
