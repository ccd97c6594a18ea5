package legacy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
)

// unable refuses a parcel for which its user asked what an original client does not know: a job that runs without it is
// another one than was ordered. Agents of ours that serve it, too, may take it. What only the service sets is left
// away, and reported while the job runs.
func (c *Client) unable(ctx context.Context, p *compute.Parcel) error {
	if c.options.Record == nil {
		return nil
	}
	j, err := c.options.Record(ctx, p.Job)
	if err != nil {
		return fmt.Errorf("%w: the record of the job cannot be read: %w", compute.ErrNotSent, err)
	}
	s, err := compute.SpecOf(&j)
	if err != nil {
		return fmt.Errorf("%w: %w", compute.ErrNotSent, err)
	}
	asked := unknown(s.Limits, s.Env)
	if asked == "" {
		return nil
	}
	service := c.service(p.Service)
	return &compute.Refusal{Reason: "an original client of job-orchestrator does not know " + asked +
		", which were asked for", Here: service.Unlimited == nil || service.Unlimited() == ""}
}

// placement names where a job runs, if that is not all that its service sets.
func (c *Client) placement(ctx context.Context, id job.ID) string {
	c.mu.Lock()
	place, known := c.places[id]
	c.mu.Unlock()
	if known || c.options.Record == nil {
		return place
	}
	j, err := c.options.Record(ctx, id)
	if err != nil {
		return "" // the next check asks again
	}
	s := c.service(j.Group)
	if lacks := unknown(s.Limits, s.Env); lacks != "" {
		place = "an original client of job-orchestrator, which does not know what the service sets: " + lacks
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.places[id] = place
	return place
}

func (c *Client) service(name string) compute.Service {
	if c.options.Service == nil {
		return compute.Service{}
	}
	return c.options.Service(name)
}

// unknown names what of limits and variables an original client does not know; empty: there are none.
func unknown(l compute.Limits, env map[string]string) string {
	var all []string
	if names := l.Names(); len(names) > 0 {
		all = append(all, "limits ("+strings.Join(names, ", ")+")")
	}
	if len(env) > 0 {
		all = append(all, "variables ("+strings.Join(slices.Sorted(maps.Keys(env)), ", ")+")")
	}
	return strings.Join(all, " and ")
}
