package computeserve

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/serviceconfig"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/module"
)

// aloneOnly refuses what other servers of a store could not reach.
func aloneOnly(h *module.Host, s *Settings, all *serviceconfig.Config) error {
	if h.Store.Properties().Exclusive {
		return nil
	}
	var wrong []error
	for _, text := range alone(s, all) {
		wrong = append(wrong, errors.New(text))
	}
	if len(wrong) == 0 {
		return nil
	}
	return cli.Usage(errors.Join(wrong...))
}

// alone lists the settings that several servers of a store refuse: the jobs of an agent would count as lost when
// another server asks for them, and two servers would fetch the inputs of one task.
func alone(s *Settings, all *serviceconfig.Config) (texts []string) {
	if s.Local > 0 {
		texts = append(texts, "compute.local: other servers of the store do not reach the agent in this one: run "+
			"stagepost compute agent, and name its URL in the file of compute.services")
	}
	for _, a := range all.Agents {
		if a.Tunnel {
			texts = append(texts, fmt.Sprintf("agent %s: it connects to one server, and the others of the store do "+
				"not reach it: give it a URL in place of tunnel", a.Name))
		}
	}
	if s.TESImages != "" {
		texts = append(texts, "compute.tes.images: inputs of tasks are fetched by one server alone, and this store "+
			"may have several: use the store sqlite")
	}
	return texts
}

// Several lists the settings that several servers of a store refuse, and the jobs that they do not continue: those of
// the agent in the server.
func Several(s *Settings) func(context.Context, job.Store) ([]string, error) {
	return func(ctx context.Context, jobs job.Store) ([]string, error) {
		all, _, err := ServiceConfig(s)
		if err != nil {
			all = &serviceconfig.Config{}
		}
		texts := alone(s, all)
		if err != nil {
			texts = append(texts, "the services cannot be read: "+err.Error())
		}
		n, more, err := compute.At(ctx, jobs, serviceconfig.Local)
		if n > 0 {
			count := cli.Plural(int64(n), "1 job is", fmt.Sprintf("%d jobs are", n))
			if more {
				count = fmt.Sprintf("more than %d jobs are", n)
			}
			texts = append(texts, fmt.Sprintf("%s with the agent in the server, which several servers do not have: "+
				"start a server on the old store and let them end (stagepost list --kind %s --tag %s), or they count "+
				"as lost", count, compute.JobKind, compute.AgentTag(serviceconfig.Local)))
		}
		return texts, err
	}
}
