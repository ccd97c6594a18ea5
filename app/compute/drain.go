package compute

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Drain is an operator's word that an executor is to get no new jobs from this server.
type Drain struct {
	Who   string    `json:"who"`
	Why   string    `json:"why,omitempty"`
	Since time.Time `json:"since"`
}

// drainedName is the file that keeps drains over restarts.
const drainedName = "drained.json"

// Drain has an executor get no new jobs from this server, or get them again; what it has goes on. It holds from here,
// whatever kind the executor is and however it is reached, over restarts of both sides, until it is reverted. Doing it
// twice changes nothing. The other servers of the store do the same; others are their executors. NotFound: there is no
// executor of the name, and none is drained.
func (a *App) Drain(
	ctx context.Context, name string, on bool, who, why string, others ...Elsewhere,
) (Agent, error) {
	r, all := a.registry, a.Agents(others...)
	r.mu.Lock()
	_, drained := r.drained[name]
	if !r.expected[name] && !drained && !slices.ContainsFunc(all, func(one Agent) bool { return one.Name == name }) {
		r.mu.Unlock()
		return Agent{}, job.Errorf(job.NotFound, "drain", "", "there is no agent %.80q; the agents are %s", name,
			known(all))
	}
	r.mu.Unlock()
	if drained != on && a.engine != nil { // first: what a person wanted is known, whatever becomes of the process
		event := lifecycle.Event("agent-drain")
		if !on {
			event = "agent-resume"
		}
		if err := a.engine.Operator().Audit(ctx, operator.Entry{
			Actor: cmp.Or(who, "somebody"), Event: event, Object: name, Note: why,
		}); err != nil {
			return Agent{}, err
		}
	}
	changed, err := a.setDrained(name, on, Drain{cmp.Or(who, "somebody"), why, a.now()})
	if err != nil {
		return Agent{}, job.Errorf(job.Unavailable, "drain", "", "it cannot be kept: %w", bare(err))
	}
	r.mu.Lock()
	if ctx := r.ctx; changed && !on && ctx != nil { // those who wait for an agent are called
		r.wait.Go(func() { r.recall(ctx); r.call(ctx) })
	}
	r.mu.Unlock()
	one := Agent{Name: name, Error: "it has not come yet", Capacity: Capacity{Draining: on}}
	for _, known := range a.Agents(others...) {
		if known.Name == name {
			one = known
		}
	}
	one.Jobs, _, err = At(ctx, a.engine.Store(), name)
	return one, err
}

// At returns how many jobs of a store an executor has, up to 1000, and whether it has more.
func At(ctx context.Context, jobs job.Store, name string) (n int, more bool, err error) {
	open := false
	page, err := jobs.List(ctx, job.Query{Kinds: []job.Kind{JobKind}, States: atAgent, Tag: AgentTag(name),
		Ended: &open, Limit: 1000})
	return len(page.Jobs), page.Next != "", err
}

// known names executors for people.
func known(all []Agent) string {
	var names []string
	for _, one := range all {
		names = append(names, one.Name)
	}
	if len(names) > 20 {
		names = append(names[:20], "...")
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

func (a *App) now() time.Time {
	if a.engine != nil {
		return a.engine.Clock().Now().UTC()
	}
	return time.Now().UTC()
}

// setDrained drains an executor, or no longer, and reports whether it was otherwise before.
func (a *App) setDrained(name string, on bool, d Drain) (changed bool, err error) {
	a.draining.Lock()
	defer a.draining.Unlock()
	if _, err := a.readDrained(); err != nil { // another server may have changed it
		return false, err
	}
	a.registry.mu.Lock()
	all := map[string]Drain{}
	maps.Copy(all, a.registry.drained)
	a.registry.mu.Unlock()
	if _, drained := all[name]; drained == on {
		return false, nil
	}
	if all[name] = d; !on {
		delete(all, name)
	}
	if err := a.keepDrained(all); err != nil {
		return false, err
	}
	a.registry.mu.Lock()
	a.registry.drained = all
	a.registry.mu.Unlock()
	a.log.Info("an agent is drained, or not any more", "agent", name, "drained", on, "who", d.Who, "why", d.Why)
	return true, nil
}

// keepDrained writes who is drained: whole or not at all.
func (a *App) keepDrained(all map[string]Drain) error {
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	part := path.Join(stageName, drainedName+"-"+rand.Text())
	return durable.File{Root: a.root, Name: drainedName, Temporary: part}.Write(
		durable.Text(append(text, '\n')))
}

// recallDrained reads who is drained, and reports whether they are fewer than before.
func (a *App) recallDrained() (fewer bool, err error) {
	a.draining.Lock()
	defer a.draining.Unlock()
	return a.readDrained()
}

// readDrained is recallDrained for a caller that has the lock of the file.
func (a *App) readDrained() (fewer bool, err error) {
	text, err := a.root.ReadFile(drainedName)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var all map[string]Drain
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return false, fmt.Errorf("compute: %s in the data directory, which lists drained agents, cannot be read: %w",
			drainedName, err)
	}
	r := a.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	fewer, r.drained = len(all) < len(r.drained), all
	return fewer, nil
}

// followEvery is how often a server reads what other servers of the store have changed.
const followEvery = time.Second

// followDrained reads again and again who is drained, where other servers may drain executors.
func (a *App) followDrained(ctx context.Context) {
	if a.engine.Store().Properties().Exclusive {
		return
	}
	r, tick := a.registry, time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		fewer, err := a.recallDrained()
		if err != nil {
			a.log.Warn("drained agents", "error", err)
		}
		if fewer { // those who wait for an agent are called
			r.recall(ctx)
			r.call(ctx)
		}
	}
}

// drains reports whether an executor takes nothing new, by its own word or an operator's. The caller has the lock.
func (r *registry) drains(m *member) bool {
	_, drained := r.drained[m.name]
	return drained || m.room.Draining
}

// allDrained reports that a service waits for an operator: executors serve it, and he drains them. They may be switched
// off meanwhile: that is what draining is for. Then a job loses nothing by waiting. The caller has the lock.
func (r *registry) allDrained(d demand) string {
	s := r.app.services[d.service]
	var held []string
	for name, m := range r.members {
		_, drained := r.drained[name]
		serves := len(m.room.Services) == 0 || slices.Contains(m.room.Services, d.service)
		if !m.heard { // it has not answered since the start: only a service that names it counts on it
			serves = s != nil && slices.Contains(s.Agents, name)
		}
		if drained && serves && r.suits(d, name) {
			held = append(held, name)
		}
	}
	if len(held) == 0 {
		return ""
	}
	slices.Sort(held)
	by := r.drained[held[0]]
	text := fmt.Sprintf("%s takes nothing new: %s drains it", held[0], by.Who)
	if by.Why != "" {
		text += " (" + oneLine(by.Why) + ")"
	}
	if len(held) > 1 {
		text += fmt.Sprintf("; %d more are drained", len(held)-1)
	}
	return text
}

// tooSmall reports whether an executor could never run a job that may use so much.
func tooSmall(m *member, may Limits) bool {
	return m.room.Memory > 0 && may.Memory > m.room.Memory || m.room.Cores > 0 && may.Cores > m.room.Cores
}

// smallest reports why none of some executors could ever run a job.
func smallest(all []*member, may Limits) string {
	memory, cores := int64(0), 0.0
	for _, m := range all {
		memory, cores = max(memory, m.room.Memory), max(cores, m.room.Cores)
	}
	which := all[0].name + " has"
	if len(all) > 1 {
		which = "of " + names(all) + " none has more than"
	}
	switch {
	case may.Memory > memory && memory > 0:
		return fmt.Sprintf("it may use %s of memory, and %s %s for jobs", sizeText(may.Memory), which, sizeText(memory))
	case may.Cores > cores && cores > 0:
		return fmt.Sprintf("it may use %g cores, and %s %g for jobs", may.Cores, which, cores)
	}
	return fmt.Sprintf("it may use %s of memory and %g cores, and no agent has both for jobs: %s", sizeText(may.Memory),
		may.Cores, names(all))
}

// sizeText is a number of bytes for people, a little less than it is rather than more.
func sizeText(n int64) string {
	for i, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if size := int64(1) << (40 - 10*i); n >= size {
			return strconv.FormatFloat(math.Floor(float64(n)/float64(size)*10)/10, 'f', -1, 64) + " " + unit
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
