package agent

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// wireTag begins the tag by which a payload that came over the wire of job-orchestrator has its small id.
const wireTag = "wire="

// features are what the agent tells of itself in /health, what confines its payloads among them.
func (a *App) features() []string {
	all := []string{"exit-code", "range", "etag", "stagepost-agent-v1"}
	if a.options.Sandbox != "" {
		all = append(all, "sandbox-"+a.options.Sandbox)
	}
	return all
}

// legacy is the agent as servers of job-orchestrator know it: no tickets, so every submission is a new payload; ids that are guessed by nobody; nothing is forgotten
// before it was kept long enough, for no server says that it has everything.
type legacy struct{ app *App }

// loadWires learns the small ids of all payloads, so that none is given twice.
func (a *App) loadWires(ctx context.Context) error {
	q := job.Query{Kinds: []job.Kind{compute.PayloadKind}, Limit: 1000, Oldest: true}
	for {
		page, err := a.engine.Store().List(ctx, q)
		if err != nil {
			return err
		}
		a.mu.Lock()
		for i := range page.Jobs {
			for _, tag := range page.Jobs[i].Tags {
				if text, ok := strings.CutPrefix(tag, wireTag); ok {
					if n, err := strconv.ParseUint(text, 10, 32); err == nil {
						a.wires[uint32(n)] = page.Jobs[i].ID
					}
				}
			}
		}
		a.mu.Unlock()
		if page.Next == "" {
			return nil
		}
		q.After = page.Next
	}
}

// newWire gives a small id to a payload: random, 1 to 2^31-1, never one that another has or had.
func (a *App) newWire(id job.ID) (uint32, error) {
	for {
		var random [4]byte
		if _, err := rand.Read(random[:]); err != nil {
			return 0, err
		}
		n := binary.BigEndian.Uint32(random[:]) >> 1
		a.mu.Lock()
		_, taken := a.wires[n]
		if n != 0 && !taken {
			a.wires[n] = id
		}
		a.mu.Unlock()
		if n != 0 && !taken {
			return n, nil
		}
	}
}

// dropWire takes back an id whose payload was not taken.
func (a *App) dropWire(n uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.wires, n)
}

// get gives the payload with a small id, or [wire.ErrNotFound].
func (l *legacy) get(ctx context.Context, n uint32) (j job.Job, err error) {
	l.app.mu.Lock()
	id, ok := l.app.wires[n]
	l.app.mu.Unlock()
	if !ok {
		return j, wire.ErrNotFound
	}
	j, err = l.app.engine.Store().Get(ctx, id)
	if job.KindOf(err) == job.NotFound {
		return j, wire.ErrNotFound
	}
	return j, err
}

// original names the service of payloads that came without one.
func (a *App) original() string {
	if len(a.options.Services) == 1 {
		for name := range a.options.Services {
			return name
		}
	}
	return "default"
}

// Begin is part of [wire.AgentBackend].
func (l *legacy) Begin(context.Context) (wire.Submission, error) {
	a := l.app
	if err := a.Fault(); err != nil {
		return nil, err
	}
	if a.Draining() {
		return nil, wire.Busy("the agent is draining: it takes no payloads")
	}
	if _, ok := a.service(a.original()); !ok {
		return nil, wire.Unsafe(fmt.Sprintf("the agent has several services and none is called %q", a.original()))
	}
	stage, err := os.MkdirTemp(filepath.Join(a.options.Dir, stageName), "parcel-")
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(stage, jobName), 0o700); err != nil {
		return nil, errors.Join(err, os.RemoveAll(stage))
	}
	root, err := os.OpenRoot(filepath.Join(stage, jobName))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(stage))
	}
	return &delivery{app: a, stage: stage, root: root, files: map[string]compute.File{}}, nil
}

// delivery is a payload that comes over the wire of job-orchestrator.
type delivery struct {
	app   *App
	stage string
	root  *os.Root
	files map[string]compute.File
}

// File is part of [wire.Submission].
func (d *delivery) File(name string, r io.Reader) (err error) {
	if d.app.full() {
		return wire.Busy("the agent's disk is full")
	}
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) { // a later file of the same name wins
		return err
	}
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(d.app.guardDisk(f), sum), r)
	if refusal, is := errors.AsType[*compute.Refusal](err); is {
		err = wire.Busy(refusal.Reason)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	d.files[name] = compute.File{Name: name, Size: n, SHA256: fmt.Sprintf("%x", sum.Sum(nil))}
	return nil
}

// Commit is part of [wire.Submission].
func (d *delivery) Commit(ctx context.Context) (wire.Payload, error) {
	a := d.app
	name := a.original()
	service, ok := a.service(name)
	if !ok {
		return wire.Payload{}, wire.Busy("the agent does not serve it any more")
	}
	s := &Spec{Service: name, Limits: service.Limits.Over(a.options.Limits), Inputs: true}
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		s.Files = append(s.Files, d.files[name])
	}
	id := job.ID(prefix + "_" + ulid.Make().String())
	n, err := a.newWire(id)
	if err != nil {
		return wire.Payload{}, err
	}
	s.Wire = n
	free, err := a.locked(ctx, id)
	if err != nil {
		return wire.Payload{}, err
	}
	defer free()
	tag := wireTag + strconv.FormatUint(uint64(n), 10)
	j, err := a.settle(ctx, engine.Order{
		ID: id, Kind: compute.PayloadKind, Group: name, Tags: []string{tag}, By: lifecycle.Engine, Actor: "original server",
	}, s, d.stage)
	if err != nil {
		a.dropWire(n)
		return wire.Payload{}, err
	}
	return wirePayload(a, &j, n), nil
}

// Discard is part of [wire.Submission].
func (d *delivery) Discard() {
	_ = d.root.Close()
	_ = os.RemoveAll(d.stage) // after Commit it is not there any more
}

// words are the states on the wire of job-orchestrator.
var words = map[string]wire.Status{
	string(compute.Prepared): wire.Prepared, string(compute.Running): wire.Running, string(compute.Completed): wire.Completed,
	string(compute.Failed): wire.Failed, string(compute.Invalid): wire.Invalid, string(compute.Killed): wire.Killed, string(compute.Cleaned): wire.Cleaned,
}

// wirePayload tells a payload to a server of job-orchestrator. One that was killed is Running until its processes are gone.
func wirePayload(a *App, j *job.Job, n uint32) wire.Payload {
	p := wire.Payload{ID: n, Status: words[string(j.State)], Loc: a.place(j.ID, jobName), Instance: a.memory.name, Killed: j.State == compute.Killed}
	notice := a.notice(j)
	if p.Message = notice.Reason; notice.Standing == compute.Works {
		p.Status = wire.Running
	}
	if e := notice.Ending; e != nil {
		p.Reason, p.Message, p.Signal = e.Cause, e.Sentence, e.Signal
		if e.Exit >= 0 {
			p.ExitCode = &e.Exit
		}
	}
	return p
}

// Payload is part of [wire.AgentBackend].
func (l *legacy) Payload(ctx context.Context, n uint32) (wire.Payload, error) {
	j, err := l.get(ctx, n)
	if err != nil {
		return wire.Payload{}, err
	}
	return wirePayload(l.app, &j, n), nil
}

// Result is part of [wire.AgentBackend].
func (l *legacy) Result(ctx context.Context, n uint32) (r wire.Result, err error) {
	j, err := l.get(ctx, n)
	if err != nil {
		return r, err
	}
	f, made, err := l.app.openZIP(ctx, &j)
	if err != nil {
		return r, err
	}
	return wire.Result{File: f, Size: made.Bytes, ETag: made.SHA256}, nil
}

// Partial is part of [wire.AgentBackend].
func (l *legacy) Partial(ctx context.Context, n uint32, w func() io.Writer) error {
	j, err := l.get(ctx, n)
	if err != nil {
		return err
	}
	if err := l.app.partial(ctx, &j, w); !errors.Is(err, compute.ErrNoPayload) {
		return err
	}
	return fmt.Errorf("its files are gone: %w", fs.ErrNotExist)
}

// Kill is part of [wire.AgentBackend].
func (l *legacy) Kill(ctx context.Context, n uint32) error {
	j, err := l.get(ctx, n)
	if err != nil {
		return err
	}
	return l.app.kill(ctx, &j, killNote)
}

// Load is part of [wire.AgentBackend].
func (l *legacy) Load(context.Context) (float64, error) { return l.app.load.percent(), nil }

// Health is part of [wire.AgentBackend].
func (l *legacy) Health(ctx context.Context) error {
	_, err := l.app.engine.Store().Count(ctx)
	return errors.Join(l.app.Fault(), err)
}
