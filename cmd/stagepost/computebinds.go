package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/app/compute/site"
	"github.com/stagepost/stagepost/edge/sandbox"
)

// serverBinds checks the binds of a server's services: those of the file, and those of the environment, which always name the agents that serve them, so that none of them runs here.
func serverBinds(s *hostSettings, all *site.Site, env *wire.Config) error {
	agent := ""
	if s.ComputeLocal > 0 {
		agent = site.Local
	}
	file := *all
	file.Services = slices.DeleteFunc(slices.Clone(all.Services), func(o site.Service) bool { _, ok := env.Services[o.Name]; return ok })
	return errors.Join(fileBinds(&file, s.ComputeServices, agent), shownBinds(env.Services, false))
}

// fileBinds checks the binds in a file of services for the agent of a name; empty: there is none on this machine. What services show that name other agents only is looked for there.
func fileBinds(all *site.Site, file, agent string) error {
	var wrong []error
	binds := all.Agent()
	for _, s := range all.Services {
		here := agent != "" && (len(s.Agents) == 0 || slices.Contains(s.Agents, agent))
		wrong = append(wrong, checkBinds(fmt.Sprintf("%s: service %q: binds", file, s.Name), binds[s.Name].Binds, here))
	}
	return errors.Join(wrong...)
}

// shownBinds checks the directories of SERVICE_<NAME>_BIND_RO.
func shownBinds(services map[string]wire.Service, here bool) error {
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(services)) {
		var binds []sandbox.Bind
		for _, dir := range services[name].BindRO {
			binds = append(binds, sandbox.Bind{From: dir})
		}
		wrong = append(wrong, checkBinds("SERVICE_"+strings.ToUpper(name)+"_BIND_RO", binds, here))
	}
	return errors.Join(wrong...)
}

// checkBinds gives all mistakes in what a service shows of a machine to its jobs, each with its place. Only on the machine where they run, here, it has to exist.
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
