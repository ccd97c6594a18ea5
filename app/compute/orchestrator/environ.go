package orchestrator

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/app/compute/site"
)

// AddServices takes the services into a site that job-orchestrator's variables name, each with its original clients as
// agents. A service or agent that the file has already is a mistake. All mistakes are given, joined.
func AddServices(s *site.Site, c *wire.Config) error {
	var all []site.Added
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		one := c.Services[name]
		added := site.Added{
			Service: site.Service{Name: one.Name, RunsPerUser: &one.RunsPerUser, MaxRuns: &one.MaxRuns, Binds: one.BindRO},
			From:    "the environment (SERVICE_" + strings.ToUpper(name) + "_...)",
		}
		for i := range one.Agents {
			added.Agents = append(added.Agents, agentName(name, i))
		}
		all = append(all, added)
	}
	return s.Add(all)
}

// agentName is what the nth client of a service is called.
func agentName(service string, n int) string { return fmt.Sprintf("%s-%d", service, n+1) }

// endpoints gives the addresses of an agent that variables name.
func endpoints(c *wire.Config, agent string) (wire.Endpoints, bool) {
	for name, one := range c.Services {
		for i := range one.Agents {
			if agentName(name, i) == agent {
				return one.Agents[i], true
			}
		}
	}
	return wire.Endpoints{}, false
}
