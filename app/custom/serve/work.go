package customserve

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagepost/stagepost/app/custom"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/module"
	"github.com/stagepost/stagepost/server"
)

// Remote is the work of lifecycle files on other machines: the commands of their states.
func Remote() *module.Remote {
	return &module.Remote{
		Doc: "states of lifecycle files that have a command; the file comes from the server", Open: openRemote,
	}
}

// remote runs commands of lifecycles of a server.
type remote struct {
	host    *module.RemoteHost
	options custom.Options
	works   []engine.Work
	box     *sandbox.Sandbox
}

func openRemote(ctx context.Context, h *module.RemoteHost) (module.RemoteWork, error) {
	box, err := sandbox.Open(ctx, sandbox.Options{Tier: h.Sandbox, Name: "stagepost-" + h.Name, Log: h.Log})
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if box.Tier() == sandbox.None {
		h.Log.Warn("commands run without a sandbox: they may do what this process may",
			"remedy", "stagepost compute agent doctor")
	}
	r := &remote{host: h, box: box,
		options: custom.Options{Temp: h.Temp, Sandbox: box, Report: server.ParseReport}}
	for _, k := range h.Kinds {
		w, err := r.Refresh(ctx, k)
		if err != nil {
			return nil, errors.Join(err, box.Close())
		}
		r.works = append(r.works, *w)
	}
	return r, nil
}

// Works is part of [module.RemoteWork].
func (r *remote) Works() []engine.Work { return r.works }

// Refresh is part of [module.RemoteWork]. It reads the file of a kind from the server, and compares the hashes: another
// version of this program may read another lifecycle from the same file.
func (r *remote) Refresh(ctx context.Context, k job.Kind) (*engine.Work, error) {
	answer, err := r.host.API.LifecycleFile(ctx, k)
	if err != nil {
		return nil, err
	}
	f, err := custom.Parse("", []byte(answer.File))
	if err != nil {
		return nil, fmt.Errorf("this version of the program does not read the file of %s: %w", k, err)
	}
	if f.Table.Hash() != answer.Hash {
		return nil, job.Errorf(job.Refused, "work", "",
			"%s has the definition %s in the server and %s here: use the version of the server (stagepost version)",
			k, answer.Hash, f.Table.Hash())
	}
	w := custom.RemoteWork(f, r.options)
	if len(w.Steps) == 0 {
		return nil, job.Errorf(job.Refused, "work", "", "no state of %s has a command: nothing of it can be done here",
			k)
	}
	return &w, nil
}

// Close ends the commands.
func (r *remote) Close() error { return r.box.Close() }
