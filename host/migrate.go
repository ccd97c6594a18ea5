package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/stagepost/stagepost/host/stores"
	"github.com/stagepost/stagepost/internal/transfer"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/module"
)

// Migration copies the jobs of one store into another one, with the databases of applications. The files of jobs stay
// in the data directory. No server may run on either store.
type Migration struct {
	Settings *Settings
	From, To string // as in the setting store
	Dir      string // the data directory, absolute: it has the files of jobs, and the SQLite databases
	Check    bool   // only what would be copied is counted
	Replace  bool   // of a target whose jobs were migrated away, what it still has is removed

	Progress func(done, total int64, what string) // defaults to none

	stop func(step string) error // for tests: called after each step; an error ends the migration there
}

// Migrated is what a migration copied. Both stores have the same of each table.
type Migrated struct {
	From      string           `json:"from"`
	To        string           `json:"to"`
	Directory string           `json:"directory"` // with the files of jobs
	Copied    bool             `json:"copied"`    // false: the tables are what would be copied
	Tables    []transfer.Table `json:"tables"`
	Warnings  []string         `json:"warnings"` // what servers on the target refuse, or do not continue
}

// side is one of the two stores.
type side struct {
	where string
	name  string // for people
	store *stores.Store
}

// Run copies everything, compares both stores, and marks the source as migrated. After an interruption it begins again.
func (m *Migration) Run(ctx context.Context) (done Migrated, err error) {
	if m.Progress == nil {
		m.Progress = func(int64, int64, string) {}
	}
	if m.stop == nil {
		m.stop = func(string) error { return nil }
	}
	var from, to side
	defer func() { err = errors.Join(err, from.close(), to.close()) }()
	if err := m.open(ctx, &from, m.From); err != nil {
		return done, err
	}
	if err := m.openTarget(ctx, &to); err != nil {
		return done, err
	}
	done = Migrated{From: from.name, To: to.name, Directory: m.Dir, Copied: !m.Check}
	if err := m.ready(ctx, &from, &to); err != nil {
		return done, err
	}
	if done.Warnings, err = m.warnings(ctx, &from); err != nil {
		return done, err
	}
	rows, err := from.store.Content.Rows(ctx)
	if err != nil {
		return done, err
	}
	if m.Check {
		done.Tables, err = m.count(ctx, &from, rows)
		return done, err
	}
	if done.Tables, err = m.copyStore(ctx, &from, &to, 2*rows.Sum()); err != nil {
		return done, err
	}
	more, err := m.copyModules(ctx)
	if done.Tables = append(done.Tables, more...); err != nil {
		return done, err
	}
	return done, m.finish(ctx, &from, &to)
}

// open opens a store, which no server has then.
func (m *Migration) open(ctx context.Context, s *side, where string) error {
	o, err := m.options(where)
	if err != nil {
		return err
	}
	s.where, s.name = where, "sqlite in "+m.Dir
	if stores.Shared(where) {
		s.name = "PostgreSQL database " + stores.Location(where)
	}
	s.store, err = stores.Open(ctx, o)
	return err
}

// openTarget opens the target. One that does not exist yet is not made for a check: it has no store then.
func (m *Migration) openTarget(ctx context.Context, to *side) error {
	if m.Check && m.lacks(m.To) {
		to.where, to.name = m.To, "a new store in "+m.Dir
		return nil
	}
	err := m.open(ctx, to, m.To)
	if m.Check && job.KindOf(err) == job.NotFound {
		return nil
	}
	return err
}

func (m *Migration) options(where string) (stores.Options, error) {
	settings := *m.Settings
	settings.Store = where
	o, err := settings.storeOptions(m.Dir, m.Dir)
	o.Migrates, o.Existing, o.ReadOnly, o.Name = true, where == m.From, m.Check, "migrate"
	if !stores.Shared(where) {
		o.Password = ""
	}
	return o, err
}

func (s *side) close() error {
	if s.store == nil {
		return nil
	}
	err := s.store.Closer.Close()
	s.store = nil
	return err
}

// reopen opens a store again, as a server would read it.
func (m *Migration) reopen(ctx context.Context, s *side) error {
	if err := s.close(); err != nil {
		return err
	}
	return m.open(ctx, s, s.where)
}

// lacks reports whether the target is a file that is not there.
func (m *Migration) lacks(where string) bool {
	_, err := os.Stat(filepath.Join(m.Dir, stores.SQLiteFile))
	return !stores.Shared(where) && err != nil
}

// ready refuses stores between which nothing can be copied.
func (m *Migration) ready(ctx context.Context, from, to *side) error {
	source, err := from.store.Content.Mark(ctx)
	if err != nil {
		return err
	}
	target := transfer.Mark{}
	if to.store != nil {
		if target, err = to.store.Content.Mark(ctx); err != nil {
			return err
		}
	}
	again := target.State == transfer.Unfinished && target.Other == from.name
	if source.State != transfer.Free && !(again && source.State == transfer.Moved && source.Other == to.name) {
		return source.Refuse(from.name)
	}
	switch {
	case again:
		return nil // the rest was found right when it began
	case m.Replace && target.State != transfer.Free:
	case target.State == transfer.Moved:
		return job.Errorf(job.Refused, "migrate", "", "%s still has the jobs that were migrated to %s: add --replace "+
			"to remove them there", to.name, target.Other)
	case target.State == transfer.Unfinished:
		return target.Refuse(to.name)
	default:
		if err := m.empty(ctx, to); err != nil {
			return err
		}
	}
	return from.store.SameFiles(ctx, m.Dir)
}

// empty refuses a target that has something, and names it.
func (m *Migration) empty(ctx context.Context, to *side) error {
	n := transfer.Rows{}
	if to.store != nil {
		var err error
		if n, err = to.store.Content.Rows(ctx); err != nil {
			return err
		}
	}
	if !n.Empty() {
		return job.Errorf(job.Refused, "migrate", "", "%s is not empty: it has %d jobs, %d messages, %d entries of "+
			"the audit log and %d holds; nothing was changed. Name an empty database", to.name, n.Jobs, n.Messages,
			n.Audits, n.Holds)
	}
	for _, a := range m.Settings.Modules {
		if a.Count == nil {
			continue
		}
		n, err := a.Count(ctx, m.databases(m.To))
		if err != nil {
			return err
		}
		if n > 0 {
			return job.Errorf(job.Refused, "migrate", "", "%s is not empty: %s has %d rows in its database; nothing "+
				"was changed. Name an empty database", to.name, a.Name, n)
		}
	}
	return nil
}

// warnings lists the settings that servers on the target refuse, and the jobs that they do not continue.
func (m *Migration) warnings(ctx context.Context, from *side) ([]string, error) {
	shared, _ := filepath.Abs(m.Settings.Shared)
	all := stores.Refuses(m.To, m.Settings.BackupEvery > 0, m.Settings.Shared != "" && shared != m.Dir)
	if !stores.Shared(m.To) {
		return all, nil
	}
	more, err := module.Several(ctx, m.Settings.Modules, from.store.Jobs)
	return append(all, more...), err
}

// databases is where applications have theirs beside a store.
func (m *Migration) databases(where string) module.Databases {
	d := module.Databases{Dir: m.Dir}
	if o, err := m.options(where); err == nil && stores.Shared(where) {
		d.Postgres, _ = stores.Address(&o) // the store is open with it
	}
	return d
}

// count lists what would be copied.
func (m *Migration) count(ctx context.Context, from *side, n transfer.Rows) ([]transfer.Table, error) {
	once, err := from.store.Content.Once(ctx)
	if err != nil {
		return nil, err
	}
	all := []transfer.Table{{Name: "jobs", Rows: n.Jobs}, {Name: "history", Rows: n.Entries},
		{Name: "tasks", Rows: n.Tasks}, {Name: "outbox", Rows: n.Messages}, {Name: "audit log", Rows: n.Audits},
		{Name: "holds", Rows: n.Holds}, {Name: transfer.NumbersAndClock, Rows: once.Rows()}}
	for _, a := range m.Settings.Modules {
		if a.Count == nil {
			continue
		}
		n, err := a.Count(ctx, m.databases(m.From))
		if err != nil {
			return all, err
		}
		all = append(all, transfer.Table{Name: a.Name, Rows: n})
	}
	return all, nil
}

// copyStore copies the jobs and compares them, as the target has them when it is opened again.
func (m *Migration) copyStore(ctx context.Context, from, to *side, total int64) ([]transfer.Table, error) {
	mark := transfer.Mark{State: transfer.Unfinished, Other: from.name, At: time.Now()}
	if err := to.store.Content.SetMark(ctx, mark); err != nil {
		return nil, err
	}
	if err := m.stop("the mark of the target"); err != nil {
		return nil, err
	}
	if err := to.store.Content.Clear(ctx); err != nil {
		return nil, err
	}
	if err := m.reopen(ctx, to); err != nil {
		return nil, err
	}
	done := int64(0)
	m.Progress(0, total, "copy")
	err := transfer.Copy(ctx, from.store.Content, to.store.Content, func(rows int64) error {
		done += rows
		m.Progress(done, total, "copy")
		return m.stop(fmt.Sprintf("a part that ends with row %d", done))
	})
	if err != nil {
		return nil, err
	}
	if err := m.reopen(ctx, to); err != nil {
		return nil, err
	}
	return transfer.Compare(ctx, from.store.Content, to.store.Content, func(rows int64) {
		done += rows
		m.Progress(done, total, "compare")
	})
}

// copyModules copies the databases of applications.
func (m *Migration) copyModules(ctx context.Context) (all []transfer.Table, err error) {
	for _, a := range m.Settings.Modules {
		if a.Migrate == nil {
			continue
		}
		m.Progress(0, 0, a.Name)
		c, err := a.Migrate(ctx, m.databases(m.From), m.databases(m.To), true)
		if err != nil {
			return all, fmt.Errorf("the database of %s: %w", a.Name, err)
		}
		all = append(all, transfer.Table{Name: a.Name, Rows: c.Rows, Digest: c.Digest})
		if err := m.stop("the database of " + a.Name); err != nil {
			return all, err
		}
	}
	return all, nil
}

// finish lets servers use the target, and none the source.
func (m *Migration) finish(ctx context.Context, from, to *side) error {
	mark := transfer.Mark{State: transfer.Moved, Other: to.name, At: time.Now()}
	if err := from.store.Content.SetMark(ctx, mark); err != nil {
		return err
	}
	if err := m.stop("the mark of the source"); err != nil {
		return err
	}
	if err := to.store.TakeFiles(ctx, m.Dir); err != nil {
		return err
	}
	if err := m.stop("the directory of files"); err != nil {
		return err
	}
	return to.store.Content.SetMark(ctx, transfer.Mark{})
}

// Reopen removes the mark of a store whose jobs were migrated, so that servers start on it again.
func (m *Migration) Reopen(ctx context.Context) (name string, err error) {
	var s side
	defer func() { err = errors.Join(err, s.close()) }()
	if err := m.open(ctx, &s, m.From); err != nil {
		return "", err
	}
	mark, err := s.store.Content.Mark(ctx)
	switch {
	case err != nil:
		return s.name, err
	case mark.State == transfer.Free:
		return s.name, job.Errorf(job.Refused, "migrate", "", "%s was not migrated: servers may start on it", s.name)
	case mark.State == transfer.Unfinished:
		return s.name, mark.Refuse(s.name)
	}
	if err := s.store.TakeFiles(ctx, m.Dir); err != nil {
		return s.name, err
	}
	return s.name, s.store.Content.SetMark(ctx, transfer.Mark{})
}
