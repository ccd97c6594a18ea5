package tes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/job"
)

// AnyImage is the image of the service for all that are not named.
const AnyImage = "*"

// Options of an adapter. Images are required.
type Options struct {
	Images map[string]string // image and its service
	Roots  []string          // directories from which inputs may be taken by file://. Defaults to none
	// directories to which outputs may be copied by file://, over what is there. Defaults to none
	Outputs []string
	Fetch   fetch.Policy // for http and https
	Log     *slog.Logger // defaults to none
}

// Adapter makes orders of tasks, and tasks of jobs. It may be used by many at once.
type Adapter struct {
	options Options
	client  *fetch.Client
}

// New opens an adapter.
func New(o Options) (*Adapter, error) {
	if len(o.Images) == 0 {
		return nil, fmt.Errorf("tes: there is no image")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Fetch.Log == nil {
		o.Fetch.Log = o.Log
	}
	for _, roots := range []*[]string{&o.Roots, &o.Outputs} {
		*roots = slices.Clone(*roots)
		for i, dir := range *roots {
			if !filepath.IsAbs(dir) || filepath.Clean(dir) == "/" {
				return nil, fmt.Errorf("tes: the root %q must be an absolute path, and not that of everything", dir)
			}
			(*roots)[i] = filepath.Clean(dir)
		}
	}
	return &Adapter{options: o, client: fetch.New(o.Fetch)}, nil
}

// Close closes idle connections.
func (a *Adapter) Close() { a.client.Close() }

// ParseImages reads a list such as "ubuntu:24.04=small,*=default".
func ParseImages(text string) (map[string]string, error) {
	images := map[string]string{}
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		at := strings.LastIndexByte(one, '=')
		if at <= 0 || at == len(one)-1 {
			return nil, fmt.Errorf("%q: it must be IMAGE=SERVICE", one)
		}
		image, service := strings.TrimSpace(one[:at]), strings.TrimSpace(one[at+1:])
		if _, again := images[image]; again {
			return nil, fmt.Errorf("the image %q is there twice", image)
		}
		images[image] = service
	}
	return images, nil
}

// Plan is what a task comes to: an order that lacks an owner, and what stands in the task itself.
type Plan struct {
	Order  compute.Order
	Script string
	inputs []Input
}

// kept is what the spec of a job keeps of its task.
type kept struct {
	Task Task `json:"task"` // without contents
	// SHA-256 of those that were left out, by the number of the input
	Contents map[int]string `json:"contents,omitempty"`
}

// Plan checks a task and returns what it amounts to. All mistakes are of kind Invalid.
func (a *Adapter) Plan(t Task) (*Plan, error) {
	t.ID, t.State, t.Logs, t.Created = "", "", nil, "" // the server's, whatever a client sends
	c, err := check(t)
	if err != nil {
		return nil, err
	}
	p := &Plan{inputs: c.Inputs, Script: c.script()}
	p.Order.Fetch = remote(c.Inputs)
	if p.Order.Service, err = a.service(&t); err != nil {
		return nil, err
	}
	for i := range c.Inputs {
		if c.Inputs[i].Content == "" {
			if err := a.checkURL(c.Inputs[i].URL); err != nil {
				return nil, invalid("inputs[%d].url: %w", i, err)
			}
		}
	}
	for i := range c.Outputs {
		if err := a.checkTarget(c.Outputs[i].URL); err != nil {
			return nil, invalid("outputs[%d].url: %w", i, err)
		}
	}
	if p.Order.Limits, err = t.Resources.limits(); err != nil {
		return nil, err
	}
	k := kept{Task: t, Contents: map[int]string{}}
	k.Task.Inputs = slices.Clone(t.Inputs)
	for i := range k.Task.Inputs {
		if in := &k.Task.Inputs[i]; in.Content != "" {
			sum := sha256.Sum256([]byte(in.Content))
			k.Contents[i], in.Content = hex.EncodeToString(sum[:]), ""
		}
	}
	if p.Order.TES, err = json.Marshal(k); err != nil {
		return nil, invalid("%w", err)
	}
	if len(p.Order.TES) > mostTask || len(p.Script) > 4*mostTask {
		return nil, invalid("a task has at most %d bytes beside the contents of its inputs", mostTask)
	}
	left := false
	p.Order.Inputs, p.Order.Name, p.Order.Labels = &left, jobName(t.Name), labels(t.Tags)
	return p, nil
}

// service gives the service of a task by its images.
func (a *Adapter) service(t *Task) (string, error) {
	service := ""
	for i := range t.Executors {
		image := t.Executors[i].Image
		one, ok := a.options.Images[image]
		if !ok {
			one, ok = a.options.Images[AnyImage]
		}
		if !ok {
			return "", invalid("executors[%d].image: %.100q is not known here (known: %s)", i, image,
				strings.Join(slices.Sorted(maps.Keys(a.options.Images)), ", "))
		}
		if service != "" && one != service {
			return "", invalid("executors[%d].image: %.100q runs in the service %s, and the executors before it in "+
				"%s: a task runs in one", i, image, one, service)
		}
		service = one
	}
	return service, nil
}

// read gives what a job keeps of its task; ok is false for one that was no task.
func read(j *job.Job) (k kept, ok bool, err error) {
	spec, err := compute.SpecOf(j)
	if err != nil || len(spec.TES) == 0 {
		return k, false, err
	}
	if err := json.Unmarshal(spec.TES, &k); err != nil {
		return k, false, job.Errorf(job.Internal, "tes", j.ID, "its task cannot be read: %w", err)
	}
	return k, true, nil
}

// TaskOf gives the task that a job was made of, without contents; ok is false for one that was no task.
func TaskOf(j *job.Job) (t Task, ok bool, err error) {
	k, ok, err := read(j)
	return k.Task, ok, err
}
