package host

import (
	"context"
	"fmt"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/host/stores"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/module"
	"github.com/stagepost/stagepost/server"
)

// Maintenance checks and backs up a data directory, with or without a server on it.
type Maintenance struct {
	Store *stores.Store
	Dir   string // the directory with the files of jobs

	Settings *Settings // which name the contents of backups and their directory
	backups  backups

	// Apps are the running applications by the names of their modules. A [module.Checker] checks its files itself; for
	// the others, the module checks the data directory.
	Apps map[string]module.App
}

var _ server.Maintenance = (*Maintenance)(nil)

// mostFaults is how many faults are listed.
const mostFaults = 1000

// Verify checks histories against records.
func (d *Maintenance) Verify(ctx context.Context, id job.ID) (client.Checkup, error) {
	c := client.Checkup{Faults: []string{}}
	lifeOf, err := d.lives()
	if err != nil {
		return c, err
	}
	jobs, entries, err := d.Store.Verify(ctx, id, lifeOf, func(id job.ID, err error) {
		if len(c.Faults) < mostFaults {
			text := err.Error()
			if id != "" { // else the error names the audit list
				text = string(id) + ": " + text
			}
			c.Faults = append(c.Faults, text)
		}
	})
	c.Jobs, c.Entries, c.Sound = int(jobs), int(entries), len(c.Faults) == 0
	return c, err
}

// lives finds lifecycles: those of the program, and those in files of the data directory.
func (d *Maintenance) lives() (func(job.Kind) *lifecycle.Table, error) {
	added := map[job.Kind]*lifecycle.Table{}
	for _, m := range d.Settings.Modules {
		if m.LivesIn == nil {
			continue
		}
		tables, err := m.LivesIn(d.Dir)
		if err != nil {
			return nil, err
		}
		for _, t := range tables {
			added[job.Kind(t.Name())] = t
		}
	}
	return func(kind job.Kind) *lifecycle.Table {
		if t := d.Settings.LifeOf(kind); t != nil {
			return t
		}
		return added[kind]
	}, nil
}

// Fsck checks what the store derives from records, and compares these with the files of the applications. Only the
// first can be made anew here, which is entered in the audit list.
func (d *Maintenance) Fsck(ctx context.Context, f client.Fsck) (client.Checkup, error) {
	if f.Repair && d.Store.Fsck == nil {
		return client.Checkup{Faults: []string{}}, job.Errorf(job.Refused, "fsck", "", "a store of kind %s derives "+
			"nothing outside the transactions of its database, and so has nothing to repair: leave out --repair",
			d.Store.Jobs.Properties().Name)
	}
	if f.Repair {
		if err := d.enter(ctx, lifecycle.Operator, "fsck-repair", f.Actor, f.Note, ""); err != nil {
			return client.Checkup{Faults: []string{}}, err
		}
	}
	lifeOf, err := d.lives()
	if err != nil {
		return client.Checkup{Faults: []string{}}, err
	}
	check := func() (client.Checkup, error) { return d.Verify(ctx, "") }
	if d.Store.Fsck != nil {
		check = func() (client.Checkup, error) { return d.Store.Fsck(ctx, lifeOf, f.Repair) }
	}
	c, err := check()
	for _, m := range d.Settings.Modules {
		if err != nil {
			break
		}
		err = d.check(ctx, &m, &c)
	}
	return c, err
}

// check compares the records of a module with its files.
func (d *Maintenance) check(ctx context.Context, m *module.Module, c *client.Checkup) error {
	if m.Check == nil {
		return nil
	}
	check := func(ctx context.Context) (module.Findings, error) {
		return m.Check(ctx, module.Directory{Dir: d.Dir, Postgres: d.Store.Postgres,
			Installation: d.Store.Installation, Store: d.Store.Jobs})
	}
	if x, ok := d.Apps[m.Name].(module.Checker); ok {
		check = x.Check
	}
	found, err := check(ctx)
	c.Objects += found.Objects
	c.Versions += found.Versions
	c.Faults = append(c.Faults, found.Faults...)
	if found.More > 0 {
		c.Faults = append(c.Faults, fmt.Sprintf("and %d more about %s", found.More, found.About))
	}
	c.Sound = c.Sound && len(found.Faults) == 0
	return err
}
