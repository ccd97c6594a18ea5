package computeserve

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/stagepost/stagepost/app/compute/serviceconfig"
	"github.com/stagepost/stagepost/edge/sandbox"
)

// serverBinds checks the binds of a server's services: those of the file, and those of the environment, which always
// name the agents that serve them, so that none of them runs here.
func serverBinds(s *Settings, all *serviceconfig.Config, env *serviceconfig.Environment) error {
	agent := ""
	if s.Local > 0 {
		agent = serviceconfig.Local
	}
	file := *all
	file.Services = slices.DeleteFunc(slices.Clone(all.Services), func(o serviceconfig.Service) bool {
		return slices.ContainsFunc(env.Services, func(a serviceconfig.Added) bool { return a.Service.Name == o.Name })
	})
	return errors.Join(FileBinds(&file, s.Services, agent), ShownBinds(env.Shown, false))
}

// FileBinds checks the binds in a file of services for the agent of a name; empty: there is none on this machine. What
// services show that name other agents only is searched for there.
func FileBinds(all *serviceconfig.Config, file, agent string) error {
	var wrong []error
	binds := all.Agent()
	for _, s := range all.Services {
		here := agent != "" && (len(s.Agents) == 0 || slices.Contains(s.Agents, agent))
		wrong = append(wrong, checkBinds(fmt.Sprintf("%s: service %q: binds", file, s.Name), binds[s.Name].Binds, here))
	}
	return errors.Join(wrong...)
}

// ShownBinds checks the directories that the environment shows.
func ShownBinds(shown []serviceconfig.Shown, here bool) error {
	var wrong []error
	for _, one := range shown {
		var binds []sandbox.Bind
		for _, dir := range one.Dirs {
			binds = append(binds, sandbox.Bind{From: dir})
		}
		wrong = append(wrong, checkBinds(one.From, binds, here))
	}
	return errors.Join(wrong...)
}

// checkBinds gives all mistakes in what a service shows of a machine to its jobs, each with its position in the file.
// Only on the machine where they run, here, it has to exist.
func checkBinds(place string, binds []sandbox.Bind, here bool) error {
	var wrong []error
	for _, b := range binds {
		err := b.Check()
		if err == nil && here {
			if _, err = os.Stat(b.From); err != nil {
				if p, ok := errors.AsType[*fs.PathError](err); ok {
					err = p.Err
				}
				err = fmt.Errorf("the bind of %q cannot be shown on this machine: %w", b.From, err)
			}
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", place, err))
		}
	}
	return errors.Join(wrong...)
}
