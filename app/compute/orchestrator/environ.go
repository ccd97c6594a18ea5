package orchestrator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/app/compute/serviceconfig"
)

// environment gives the settings that variables have. A setting without its variable stays zero.
func environment(c *wire.Config, environ []string, mode wire.Mode) serviceconfig.Environment {
	is := func(name string) bool {
		return slices.ContainsFunc(environ, func(v string) bool {
			return strings.HasPrefix(v, name+"=") && v != name+"="
		})
	}
	e := serviceconfig.Environment{
		NeedScript: c.StrictUpload, Resend: c.LegacyRedispatch, Strict: c.Compat == wire.Strict,
		Check: Check(c.ScriptPolicy), Shown: shown(c), Setting: bindSetting, Dial: dialer(c),
	}
	if mode == wire.ServerMode {
		e.Services = services(c)
	}
	if mode == wire.ServerMode || is("PORT") {
		e.Port = strconv.Itoa(int(c.Port))
	}
	if is("DATA_PATH") {
		e.Data = c.DataPath
	}
	if is("DB_PATH") { // the original's is a file; the store is a directory beside it
		e.Store = c.DBPath + ".stagepost"
	}
	if is("SANDBOX") {
		e.Sandbox = c.Sandbox
	}
	if is("MAX_AGE") {
		e.Keep = c.MaxAge
	}
	if is("DISPATCH_RETRIES") {
		e.Retries = c.DispatchRetries + 1
	}
	return e
}

// shown gives the directories of SERVICE_<NAME>_BIND_RO.
func shown(c *wire.Config) (all []serviceconfig.Shown) {
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		if dirs := c.Services[name].BindRO; len(dirs) > 0 {
			all = append(all, serviceconfig.Shown{Service: name, Dirs: dirs, From: bindVariable(name)})
		}
	}
	return all
}

// bindSetting is the variable that shows a directory to jobs of a service.
func bindSetting(service, dir string) string { return bindVariable(service) + "=" + dir }

func bindVariable(service string) string { return "SERVICE_" + strings.ToUpper(service) + "_BIND_RO" }

// services gives the services that variables name, each with its original clients as agents.
func services(c *wire.Config) (all []serviceconfig.Added) {
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		one := c.Services[name]
		added := serviceconfig.Added{
			Service: serviceconfig.Service{
				Name: one.Name, RunsPerUser: &one.RunsPerUser, MaxRuns: &one.MaxRuns, Binds: one.BindRO,
			},
			From: "the environment (SERVICE_" + strings.ToUpper(name) + "_...)",
		}
		for i := range one.Agents {
			added.Agents = append(added.Agents, agentName(name, i))
		}
		all = append(all, added)
	}
	return all
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
