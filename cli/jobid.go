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

// JobID gives the id of the job that a person means: a whole id as it is; else the server looks up the beginning or end
// of an id, a number, KIND/NUMBER, or a name that an application knows. A name of several jobs is a usage error.
func (c *Call) JobID(ctx context.Context, api *client.Client, name string) (job.ID, error) {
	if wholeID.MatchString(name) || name == "" {
		return job.ID(name), nil
	}
	found, err := api.Lookup(ctx, name)
	switch {
	case err != nil:
		return "", err
	case len(found) == 1:
		return found[0].ID, nil
	}
	var texts []string
	for i, j := range found {
		if i == 10 {
			texts = append(texts, "and more")
			break
		}
		texts = append(texts, fmt.Sprintf("%s (%s/%d, %s)", j.ID, j.Kind, j.Number, j.State))
	}
	return "", Usagef("%s means several jobs: %s", name, strings.Join(texts, ", "))
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
