package tes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"strings"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/collect"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// Topic is that of the messages by which outputs are copied to where the task names them. The message is part of the
// commit that completes the job: no crash loses it, and what was copied already is copied again.
const Topic = "compute-tes-outputs"

// Copies reports whether outputs of a task are to be copied.
func (t *Task) Copies() bool {
	for i := range t.Outputs {
		if t.Outputs[i].URL != "" {
			return true
		}
	}
	return false
}

// Announce gives the message that a job's completion brings with it.
func (a *Adapter) Announce(j *job.Job, c *job.Change) []job.Message {
	if c.To.State != compute.Completed || j.State == compute.Completed {
		return nil
	}
	if t, ok, err := TaskOf(j); err != nil || !ok || !t.Copies() {
		return nil
	}
	return []job.Message{{Key: string(j.ID) + "/tes-outputs", Job: j.ID, Topic: Topic, Created: c.At, Due: c.At}}
}

// Deliver gives what copies the outputs of the job of a message.
func (a *Adapter) Deliver(get func(context.Context, job.ID) (job.Job, error), files Files) engine.Deliver {
	return func(ctx context.Context, m job.Message) error {
		j, err := get(ctx, m.Job)
		if err != nil {
			return engine.Retry(err)
		}
		t, _, err := TaskOf(&j)
		if err != nil {
			return engine.Fail("unreadable", err)
		}
		f, about, err := files.Results(&j)
		if kind := job.KindOf(err); kind == job.Gone || kind == job.NotFound {
			return engine.Fail("gone", err)
		}
		if err != nil {
			return engine.Retry(err)
		}
		defer f.Close()
		return a.copyAll(ctx, &t, f, about.Bytes)
	}
}

// copyAll copies what the outputs of a task name. An output that was not made is reported when all others are copied.
func (a *Adapter) copyAll(ctx context.Context, t *Task, zip *os.File, size int64) error {
	all, more, err := collect.Entries(ctx, zip, size, mostEntries)
	if err != nil {
		return engine.Retry(err)
	}
	if more {
		return engine.Fail("too-many", fmt.Errorf("the results have more than %d files", mostEntries))
	}
	var missing error
	for i := range t.Outputs {
		o, found := &t.Outputs[i], false
		if o.URL == "" {
			continue
		}
		for _, f := range all {
			rest, ok := strings.CutPrefix(f.Name, rootName+"/")
			if !ok || !f.Mode.IsRegular() || !o.names("/"+rest) {
				continue
			}
			found = true
			if err := a.copyOne(ctx, zip, size, &f, o.target("/"+rest)); err != nil {
				return err
			}
		}
		if !found && o.Type != TypeDirectory && missing == nil {
			missing = engine.Fail("missing", fmt.Errorf("the output %s was not made", o.Path))
		}
	}
	return missing
}

// target gives the URL to which a file of an output is copied.
func (o *Output) target(name string) string {
	rest := ""
	switch {
	case o.PathPrefix != "":
		rest = strings.TrimPrefix(name, path.Clean(o.PathPrefix))
	case o.Type == TypeDirectory:
		rest = strings.TrimPrefix(name, path.Clean(o.Path))
	default:
		return o.URL
	}
	if strings.HasPrefix(o.URL, "/") {
		return strings.TrimSuffix(o.URL, "/") + rest
	}
	u := url.URL{Path: rest}
	return strings.TrimSuffix(o.URL, "/") + u.EscapedPath()
}

// copyOne copies one file below its root: under another name first, so that it is never seen in part.
func (a *Adapter) copyOne(ctx context.Context, zip *os.File, size int64, f *collect.File, to string) error {
	name, _ := local(to)
	dir, rest, err := rooted(a.options.Outputs, name)
	if err != nil { // the settings were changed since
		return engine.Fail("refused", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return engine.Retry(fmt.Errorf("a directory for outputs is not there: %w", err))
	}
	defer root.Close()
	from, _, err := collect.Entry(ctx, zip, size, f.Name)
	if err != nil {
		return engine.Retry(err)
	}
	defer from.Close()
	if err := root.MkdirAll(path.Dir(rest), 0o755); err != nil {
		return engine.Retry(err)
	}
	part := path.Join(path.Dir(rest), ".tes-"+strings.ToLower(rand.Text()))
	if err := write(root, part, rest, from, 0o644|f.Mode.Perm()&0o111); err != nil {
		return engine.Retry(fmt.Errorf("%s: %w", to, errors.Join(err, drop(root, part))))
	}
	return nil
}

// write writes a file and gives it its name. Both are on the disk afterwards, with the names of all directories above
// it.
func write(root *os.Root, part, name string, from io.Reader, mode os.FileMode) error {
	err := durable.File{Root: root, Name: name, Temporary: part, Mode: mode}.Write(func(f *os.File) error {
		_, err := io.Copy(f, from)
		return err
	})
	for dir := path.Dir(name); err == nil && dir != "."; {
		dir = path.Dir(dir)
		err = durable.SyncIn(root, dir)
	}
	return err
}

func drop(root *os.Root, name string) error {
	if err := root.Remove(name); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Settle reports how a completed task stands whose outputs are to be copied: it still runs until they are, and failed
// if they cannot be.
func Settle(s Standing, messages []job.Message) Standing {
	for i := range messages {
		switch m := &messages[i]; m.Settled {
		case job.Delivered:
		case job.Abandoned:
			return Standing{State: compute.Failed, Cause: compute.CauseResults,
				Sentence: "its outputs could not be copied: " + m.Error}
		default:
			s.State, s.Sentence = compute.Retrieving, "its outputs are being copied"
			if m.Error != "" {
				s.Sentence += "; the last attempt: " + m.Error
			}
		}
	}
	return s
}
