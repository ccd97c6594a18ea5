package compute

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Order is what is to be done with uploaded files.
type Order struct {
	Owner    string // who may see the job; required
	User     string // the owner in the system that the order comes from. Defaults to Owner
	Service  string
	Name     string
	Env      map[string]string
	Limits   Limits
	Labels   map[string]string
	Requires []string // labels that its agent must have, besides those of the service
	Inputs   *bool
	Key      string // idempotency key of the owner: a second order with it gives the first one's job
	From     job.ID
	Callback string // the URL that is notified of the job's end, if the service allows it ([Service.CheckCallback])
	Priority *int
	Number   int64     // of the job; zero: the next
	Created  time.Time // of a job of another system; zero: now
	Imported *Imported
	TES      json.RawMessage
	Fetch    []RemoteFile // inputs that are fetched when the job exists
	Uploads  []string     // resumable uploads of its files, compared when it is sent again
	By       lifecycle.Actor
	Actor    string
	Note     string
}

// sameUpload refuses a key that was used for another upload.
func sameUpload(j *job.Job, digest string) error {
	first, err := SpecOf(j)
	if err == nil && first.Upload != digest {
		err = job.Errorf(job.Conflict, "upload", j.ID,
			"this idempotency key was used for other files or another service")
	}
	return err
}

// SameOrder refuses an order under the key of another one. Files that came with it, service, user, environment and
// limits are compared by [Upload.Commit]; everything else that makes the job is compared here. The priority, which
// people may change later, is not; see server.KeyOf.
func SameOrder(first *job.Job, o *Order) error {
	spec, err := SpecOf(first)
	if err != nil {
		return err
	}
	same := spec.Name == o.Name && spec.Limits == o.Limits && maps.Equal(spec.Env, o.Env) &&
		maps.Equal(spec.Labels, o.Labels) && slices.Equal(spec.Requires, job.Tagged(o.Requires...)) &&
		spec.From == o.From && spec.Callback == o.Callback && written(spec.Inputs) == written(o.Inputs) &&
		string(spec.TES) == string(o.TES) &&
		// a task names its inputs itself; older records of tasks have no such list
		(len(o.TES) > 0 || slices.Equal(spec.Fetch, o.Fetch))
	if !same {
		return job.Errorf(job.Conflict, "upload", first.ID, "this idempotency key was used for another order")
	}
	return nil
}

// written writes a flag that may be missing.
func written(b *bool) string {
	if b == nil {
		return ""
	}
	return fmt.Sprint(*b)
}

// order makes the order of a job.
func (o *Order) order(id job.ID, spec Spec, bytes int64) engine.Order {
	return engine.Order{
		ID: id, Number: o.Number, Kind: JobKind, Priority: o.Priority, Group: o.Service, Owner: o.Owner, Key: o.Key,
		Words: []string{spec.title()}, Bytes: bytes, Created: o.Created, Spec: spec, By: o.By,
		Actor: cmp.Or(o.Actor, o.By.String()), Note: o.Note,
	}
}
