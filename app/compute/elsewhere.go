package compute

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stagepost/stagepost/quantity"
)

// Announced is an executor as a server announces it to the other servers of the store: as it reports itself, without
// what is drained, which all servers read. The clocks of servers differ.
type Announced struct {
	Agent
	For time.Duration `json:"for"` // so it stands
}

// Elsewhere are the executors that another server of the store announced.
type Elsewhere struct {
	Server string
	Age    time.Duration // of the announcement
	Agents []Announced
}

// staleAfter is how old an announcement becomes before the executors of its server count as ones that do not answer.
const staleAfter = time.Minute

// Announce lists the executors of this server for the other servers.
func (a *App) Announce() []Announced {
	r := a.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	now, list := time.Now(), []Announced{}
	for _, name := range slices.Sorted(maps.Keys(r.members)) {
		m := r.members[name]
		one := m.agent(r.labels(name))
		one.Instance = ""
		list = append(list, Announced{one, max(0, now.Sub(m.since))})
	}
	return list
}

// agent is the executor as it reports itself. The caller has the registry's lock.
func (m *member) agent(labels []string) Agent {
	one := Agent{Name: m.name, Up: m.err == nil, Since: m.since, Seen: m.seen, Capacity: m.room, Reserved: m.reserved}
	one.Labels = labels
	if m.err != nil {
		one.Error = m.err.Error()
	}
	return one
}

// Agents lists the executors by name: those of this server, and those that other servers announced. One that several
// have is as this server has it, unless it does not answer here and does there.
func (a *App) Agents(others ...Elsewhere) []Agent {
	r := a.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]Agent{}
	for name, m := range r.members {
		all[name] = m.agent(r.labels(name))
	}
	now := time.Now()
	for _, other := range others {
		for _, one := range other.Agents {
			one.Server, one.Since = other.Server, now.Add(-one.For-other.Age)
			if other.Age > staleAfter {
				one.Up, one.Since = false, now.Add(-other.Age)
				one.Error = fmt.Sprintf("its server %s announced it %s ago the last time", other.Server,
					quantity.FormatDuration(other.Age.Truncate(time.Second)))
			}
			if known, ok := all[one.Name]; !ok || !known.Up && one.Up {
				all[one.Name] = one.Agent
			}
		}
	}
	for name, one := range all {
		if d, ok := r.drained[name]; ok {
			one.Draining, one.Drain = true, &d
			all[name] = one
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Agent) int { return cmp.Compare(a.Name, b.Name) })
}
