package main

import (
	"context"
	"fmt"
	"os/exec"
	"runtime/debug"
	"strings"
	"time"
)

// system is one thing that is measured.
type system struct {
	name   string
	title  string   // with %v for the version
	module string   // whose version is printed; "" for none
	needs  []string // names in programs
	// open starts the system in an empty directory, with its servers, and checks that it syncs what it acknowledges
	open func(ctx context.Context, s setting) (peer, error)
	// poll is the interval in which the system with its default settings fetches jobs. Only the time from submission to
	// start is measured of it. 0 for the others
	poll time.Duration
	// rate is that only the rate is measured: it has no queue
	rate bool
}

// setting is what a system is opened with.
type setting struct {
	dir     string
	callers int
	begin   func() // the first step of each job calls it
}

// peer is an open system.
type peer interface {
	// do submits job i, from 1, and returns when its end was acknowledged. Several calls run at once.
	do(ctx context.Context, i int64) error
	// close stops the system and its servers.
	close() error
}

// steps is the number of transitions between the acceptance of a job and its completion.
const steps = 6

// programs of servers, by the name in system.needs; each returns the path, or what to install.
var programs = map[string]func() (string, error){
	"postgres":  postgresPrograms,
	"zookeeper": zkPrograms,
	"redis-server": func() (string, error) {
		path, err := exec.LookPath("redis-server")
		if err != nil {
			return "", fmt.Errorf("redis-server is not installed (apt-get install redis-server)")
		}
		return path, nil
	},
}

// systems are measured in this order. The first is what the others are compared with.
var systems = []system{
	{name: "stagepost", title: "**Stagepost**, embedded SQLite", open: openStagepost},
	{name: "bare", title: "bare group commit on SQLite, the same rows, no engine", open: openBare, rate: true},
	{name: "barepg", title: "bare PostgreSQL, an UPDATE and an INSERT a commit, no engine", open: openBarePostgres,
		needs: []string{"postgres"}, rate: true},
	{name: "stagepostpg", title: "**Stagepost**, PostgreSQL", open: openStagepostPostgres, needs: []string{"postgres"}},
	{name: "stagepostzk", title: "**Stagepost**, ZooKeeper", open: openStagepostZK,
		needs: []string{"zookeeper"}},
	{name: "barezk", title: "bare ZooKeeper, a multi a commit, no engine", open: openBareZK,
		needs: []string{"zookeeper"}, rate: true},
	{name: "river", title: "River %v, one resumable job", module: "github.com/riverqueue/river", open: openRiver,
		needs: []string{"postgres"}},
	{name: "riverchain", title: "River %v, a job for each stage", module: "github.com/riverqueue/river",
		open: openRiverChain, needs: []string{"postgres"}},
	{name: "riverdefault", title: "River %v, default intervals", module: "github.com/riverqueue/river",
		open: openRiverDefault, needs: []string{"postgres"}, poll: time.Second},
	{name: "dbos", title: "DBOS %v, workflow called directly", module: "github.com/dbos-inc/dbos-transact-golang",
		open: openDBOS, needs: []string{"postgres"}},
	{name: "dbosqueue", title: "DBOS %v, workflow through a queue, default interval",
		module: "github.com/dbos-inc/dbos-transact-golang", open: openDBOSQueue, needs: []string{"postgres"},
		poll: time.Second},
	{name: "goworkflows", title: "go-workflows %v on SQLite", module: "github.com/cschleiden/go-workflows",
		open: openWorkflows},
	{name: "asynq", title: "asynq %v on Redis, a task for each stage", module: "github.com/hibiken/asynq",
		open: openAsynq, needs: []string{"redis-server"}},
	{name: "asynqdefault", title: "asynq %v, default interval", module: "github.com/hibiken/asynq",
		open: openAsynqDefault, needs: []string{"redis-server"}, poll: time.Second},
	{name: "jetstream", title: "NATS JetStream %v, a message for each stage",
		module: "github.com/nats-io/nats-server/v2", open: openJetStream},
	{name: "backlite", title: "backlite %v on SQLite, a task for each stage",
		module: "github.com/mikestefanello/backlite", open: openBacklite},
}

func names() (all []string) {
	for _, y := range systems {
		all = append(all, y.name)
	}
	return all
}

// lacks returns what has to be installed for the system; "" if nothing.
func (y system) lacks() string {
	for _, program := range y.needs {
		if _, err := programs[program](); err != nil {
			return err.Error()
		}
	}
	return ""
}

// label is the title with the version.
func (y system) label() string { return strings.Replace(y.title, "%v", y.version(), 1) }

// version returns the version of the system's module.
func (y system) version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || y.module == "" {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == y.module {
			return m.Version
		}
	}
	return ""
}
