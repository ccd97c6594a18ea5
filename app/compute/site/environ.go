package site

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
)

// Add takes in the services that job-orchestrator's variables name, each with its original clients as agents. A service or agent that the file has already is a mistake.
// All mistakes are given, joined.
func (s *Site) Add(c *wire.Config) error {
	wrong := &mistakes{root: s.root}
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		one := c.Services[name]
		service := Service{Name: one.Name, RunsPerUser: &one.RunsPerUser, MaxRuns: &one.MaxRuns, Binds: one.BindRO}
		if slices.ContainsFunc(s.Services, func(o Service) bool { return o.Name == name }) {
			wrong.add([]string{"services", name}, "the service %q is in the file and in the environment (SERVICE_%s_...)", name, strings.ToUpper(name))
			continue
		}
		for i, endpoints := range one.Agents {
			a := Agent{Name: fmt.Sprintf("%s-%d", name, i+1), Endpoints: &endpoints, Services: []string{name}}
			service.Agents = append(service.Agents, a.Name)
			s.Agents = append(s.Agents, a)
		}
		s.Services = append(s.Services, service)
	}
	return errors.Join(wrong.join(), s.check(false))
}
