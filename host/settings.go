package host

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/config"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/module"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/authority"
	"github.com/stagepost/stagepost/server/signin"
	"github.com/stagepost/stagepost/web"
	"github.com/stagepost/stagepost/web/access"
)

// Settings are those of a server, with what every command takes and those of the modules.
type Settings struct {
	*cli.Common
	serveSettings
	signInSettings
	mailSettings
	Modules []module.Module
}

// NewSettings makes the default settings of a program that has these modules.
func NewSettings(modules ...module.Module) *Settings {
	s := &Settings{Modules: modules}
	groups := []any{&s.serveSettings, &s.signInSettings, &s.mailSettings}
	for _, m := range modules {
		if m.Settings != nil {
			groups = append(groups, m.Settings)
		}
	}
	s.Common = cli.NewCommon(groups...)
	return s
}

// Fresh makes the default settings of the same program.
func (s *Settings) Fresh() *Settings {
	modules := slices.Clone(s.Modules)
	for i := range modules {
		if m := &modules[i]; m.Settings != nil {
			m.Settings = reflect.New(reflect.TypeOf(m.Settings).Elem()).Interface()
		}
	}
	return NewSettings(modules...)
}

// Lives are the lifecycles of the modules.
func (s *Settings) Lives() (all []*lifecycle.Table) {
	for _, m := range s.Modules {
		all = append(all, m.Lives...)
	}
	return all
}

// LifeOf finds a lifecycle among those of the program.
func (s *Settings) LifeOf(k job.Kind) *lifecycle.Table {
	for _, t := range s.Lives() {
		if t.Name() == string(k) {
			return t
		}
	}
	return nil
}

// Routes lists the whole API.
func (s *Settings) Routes() []server.Route {
	all := slices.Concat(server.Routes(), web.Part(nil).Routes, access.Part(nil).Routes, signin.Part(nil, nil).Routes,
		authority.Part(nil, nil).Routes)
	for _, m := range s.Modules {
		if m.Part != nil {
			all = slices.Concat(all, m.Part(nil, nil).Routes)
		}
	}
	return all
}

// reserve is how many bytes of the disk uploads leave free: the most that a module requires.
func (s *Settings) reserve() (most int64) {
	for _, m := range s.Modules {
		if m.Reserve != nil {
			most = max(most, m.Reserve())
		}
	}
	return most
}

// serveSettings are those of the server itself.
type serveSettings struct {
	Listen        string        `name:"listen" for:"serve" default:"127.0.0.1:7433" doc:"the address to listen on; port 0 takes a free one; beyond loopback it requires tokens, users, oidc.issuer, proxy.user or ca.dir"`
	Store         string        `name:"store" for:"serve" default:"sqlite" doc:"where jobs are kept: sqlite, in the data directory; postgres://USER@HOST/DATABASE, which several servers may share; zookeeper://USER@HOST:2181,HOST:2181/NODE, below a node of ZooKeeper servers (/stagepost by default), for the user alone if there is one; or mem, which loses all when the server ends. A URL with a password is refused on the command line"`
	StorePassword string        `name:"store.password_file" for:"serve" doc:"file with the password of the user of the database or of ZooKeeper, which only its owner may write; defaults to none: that of the URL, or what libpq uses (PGPASSWORD, ~/.pgpass)"`
	StoreReaders  int           `name:"store.connections" for:"serve" default:"8" doc:"connections to a database in PostgreSQL that read jobs, of this server; three more write and listen, and each application with a database of its own has five"`
	Shared        string        `name:"shared" for:"serve" doc:"directory with the files of jobs, which all servers of one store reach, each under its own path; defaults to the data directory"`
	StoreLog      string        `name:"store.log" for:"serve" choices:"on off" default:"on" doc:"on: commits are acknowledged in a log in front of the database, which has them up to a second later; off: each is a transaction of the database. It may be changed at each start"`
	Name          string        `name:"name" for:"serve" doc:"the name of this server among those on the store; defaults to engine, and on a store that servers share to the name of the machine and a digest of the data directory"`
	Slots         int           `name:"slots" for:"serve" default:"16" doc:"steps that run at once"`
	Labels        string        `name:"labels" for:"serve" list:"," doc:"labels of these steps and of the agent in the server, with commas between, such as gpu,zone=b: jobs that require others are left to other workers and agents"`
	Lease         time.Duration `name:"lease" for:"serve" default:"15s" doc:"how long a claim lasts without a renewal"`
	Sweep         time.Duration `name:"sweep" for:"serve" default:"1s" doc:"time between searches for work that no event announced"`
	Grace         time.Duration `name:"grace" for:"serve" default:"10s" doc:"time that running steps get to end when the server stops"`
	Attempts      int           `name:"attempts" for:"serve" default:"8" doc:"deliveries of a mail or callback before it is abandoned"`
	RetainEvery   time.Duration `name:"retain.every" for:"serve" default:"1h" doc:"time between searches for ended jobs that were kept long enough"`
	RetainShare   int           `name:"retain.share" for:"serve" default:"20" doc:"percent of a kind's ended jobs that one search may delete"`
	ClockAway     time.Duration `name:"clock.away" for:"serve" default:"24h" doc:"how long the server may have been off until nothing is removed by its age before a person confirms the clock (stagepost admin clock)"`
	RecordsKeep   time.Duration `name:"records.keep" for:"serve" zero:"unlimited" default:"unlimited" doc:"how long the records of deleted jobs are kept before they are purged from the store; unlimited: they never are"`
	LogsKeep      time.Duration `name:"logs.keep" for:"serve" zero:"unlimited" default:"unlimited" doc:"how long the logs of ended jobs are kept; unlimited: as long as the records"`
	JobLogBytes   int64         `name:"joblog.bytes" for:"serve" unit:"bytes" default:"1MiB" doc:"size of one job's log; what comes later is left out"`
	JobLogFiles   int           `name:"joblog.files" for:"serve" default:"64" doc:"job logs kept open at once"`
	Hosts         string        `name:"hosts" for:"serve" list:"," doc:"names under which requests may come, with commas between them, such as those that a proxy in front of the server passes on; defaults to none: addresses of the loopback and localhost only"`
	FixityRate    int64         `name:"fixity.rate" for:"serve" unit:"bytes" zero:"unlimited" default:"20MiB" doc:"bytes that fixity checks of stored objects read in a second, of all applications and storage locations together; unlimited: as fast as these give them"`
	BackupDir     string        `name:"backup.dir" for:"serve" doc:"directory of backups, which must exist; defaults to backups in the data directory"`
	BackupEvery   time.Duration `name:"backup.every" for:"serve" zero:"off" default:"off" doc:"time between scheduled backups; off: none are made"`
	BackupKeep    int           `name:"backup.keep" for:"serve" default:"7" doc:"scheduled backups that are kept, at least 1; older ones are removed after a new one was made"`
	BackupWithout string        `name:"backup.without" for:"serve" list:"," doc:"parts that scheduled backups leave out, with commas between them: compute, storage; defaults to none"`
	AnchorEvery   time.Duration `name:"anchor.every" for:"serve" zero:"off" default:"24h" doc:"time between time stamps of the histories, as parts of UTC; off: none are made. They need authorities: anchor.url, or those of an application"`
	AnchorURL     string        `name:"anchor.url" for:"serve" list:"," doc:"URLs of time-stamp authorities (RFC 3161) for the histories, with commas between them, asked in this order; defaults to those of an application that has some"`
	AnchorRoots   string        `name:"anchor.roots" for:"serve" list:"," doc:"files with the root certificates (PEM) of the authorities of anchor.url, with commas between them"`
	Connections   int           `name:"connections" for:"serve" default:"4096" doc:"connections at once; one address has a quarter of them"`
	Watchers      int           `name:"watchers" for:"serve" default:"1000" doc:"event streams at once"`
	MetricsListen string        `name:"metrics.listen" for:"serve" doc:"an address of its own for /metrics; defaults to the main one"`
	MetricsGroups int           `name:"metrics.groups" for:"serve" default:"50" doc:"groups (collections) with metrics of their own; the rest are \"other\""`
	UploadBytes   int64         `name:"upload.bytes" for:"serve" unit:"bytes" default:"64GiB" doc:"size of one payload"`

	CheckpointEvery time.Duration `name:"checkpoint.every" for:"serve" zero:"off" default:"1h" doc:"between signed checkpoints of the histories and of the audit log, if any of them has grown; off: none are signed"`
	CheckpointKey   string        `name:"checkpoint.key_file" for:"serve" doc:"file with the private key that signs checkpoints, made if it is missing; servers on one store need the same one; defaults to signing-key in the data directory, or in that of the setting shared"`
}

// hosts lists the names by which requests may come, as they are compared: in lower case, without a port.
func (s *serveSettings) hosts() []string {
	var names []string
	for _, name := range config.List(s.Hosts) {
		names = append(names, strings.ToLower(strings.TrimSuffix(name, ".")))
	}
	return names
}
