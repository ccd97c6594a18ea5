package cli

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// wholeID matches ids as the engine makes them.
var wholeID = regexp.MustCompile(`^[a-z]+_[0-9A-Z]{26}$`)

// JobID returns the id of the job that has a name: a whole id as it is. The server looks up other names: the beginning
// or end of an id, a number, KIND/NUMBER, or a name of an application. A name of several jobs is a usage error.
func (c *Call) JobID(ctx context.Context, api *client.Client, name string) (job.ID, error) {
	if wholeID.MatchString(name) || name == "" {
		return job.ID(name), nil
	}
	found, err := api.Lookup(ctx, name)
	if err != nil {
		return "", err
	}
	return onlyJob(name, found)
}

// onlyJob returns the only job that a name may mean.
func onlyJob(name string, found []job.Job) (job.ID, error) {
	switch len(found) {
	case 0:
		return "", job.Errorf(job.NotFound, "lookup", "", "there is no job %s", name)
	case 1:
		return found[0].ID, nil
	}
	var texts []string
	for i, j := range found {
		if i == 10 {
			texts = append(texts, "and more")
			break
		}
		text := string(j.ID)
		if j.Kind != "" {
			text += fmt.Sprintf(" (%s/%d, %s)", j.Kind, j.Number, j.State)
		}
		texts = append(texts, text)
	}
	return "", Usagef("%s means several jobs: %s", name, strings.Join(texts, ", "))
}

// JobStore is a store that no server works on.
type JobStore interface {
	Numbered(ctx context.Context, kind job.Kind, number int64) (job.Job, error)
	IDs(ctx context.Context, part string) ([]job.ID, error)
}

// StoredID is [Call.JobID] for a store that no server works on. It has no names of applications.
func (c *Call) StoredID(ctx context.Context, store JobStore, name string) (job.ID, error) {
	if wholeID.MatchString(name) || name == "" {
		return job.ID(name), nil
	}
	var found []job.Job
	kind, digits, given := strings.Cut(name, "/")
	kinds := []string{kind}
	if !given {
		digits, kinds = name, c.LifeNames()
	}
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil && n > 0 {
		for _, kind := range kinds {
			j, err := store.Numbered(ctx, job.Kind(kind), n)
			if job.KindOf(err) == job.NotFound {
				continue
			}
			if err != nil {
				return "", err
			}
			found = append(found, j)
		}
		if len(found) > 0 {
			return onlyJob(name, found)
		}
	}
	part := strings.ToUpper(name)
	if kind, rest, known := strings.Cut(name, "_"); known {
		part = strings.ToLower(kind) + "_" + strings.ToUpper(rest)
	} else if len(part) < 4 {
		return onlyJob(name, nil)
	}
	ids, err := store.IDs(ctx, part)
	if err != nil {
		return "", err
	}
	for _, id := range ids {
		found = append(found, job.Job{ID: id})
	}
	return onlyJob(name, found)
}

// JobOf is JobID for a command about jobs of one kind: a number is that of a job of the kind.
func (c *Call) JobOf(ctx context.Context, api *client.Client, kind job.Kind, name string) (job.ID, error) {
	if _, err := strconv.ParseUint(name, 10, 64); err == nil {
		name = string(kind) + "/" + name
	}
	return c.JobID(ctx, api, name)
}

// Resolve replaces the name of a job, if it is not empty, by its id.
func (c *Call) Resolve(ctx context.Context, api *client.Client, name *job.ID) (err error) {
	*name, err = c.JobID(ctx, api, string(*name))
	return err
}
