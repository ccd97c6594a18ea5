package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

func (c *Commands) show() *cobra.Command {
	return &cobra.Command{
		Use:               "show ID...",
		Short:             "Show all fields of jobs",
		Example:           "  stagepost show ing_01J9...\n  stagepost show -o json ing_01J9... | jq .data",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: c.CompleteIDs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			for i, arg := range args {
				id, err := c.JobID(ctx, api, arg)
				if err != nil {
					return err
				}
				j, err := api.Job(ctx, id)
				if err != nil {
					return err
				}
				if i > 0 && c.Out.Mode != cli.ModeJSON {
					fmt.Fprintln(c.Out)
				}
				if err := c.printJob(&j); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

// printJob prints one job.
func (c *Commands) printJob(j *client.Job) error {
	switch c.Out.Mode {
	case cli.ModeJSON:
		return c.Out.JSON(j)
	case cli.ModePlain:
		var pairs [][2]string
		for _, s := range c.sections(j) {
			pairs = append(pairs, s.pairs...)
		}
		pairs = append(pairs, [2]string{"spec", string(j.Spec)}, [2]string{"data", string(j.Data)})
		return c.Out.Sheet(pairs)
	}
	heading := string(j.State)
	if j.Outcome != "" {
		heading += " (" + string(j.Outcome) + ")"
	}
	c.Out.Line("%s", strings.TrimPrefix(strings.TrimSpace(j.Title+" "+j.Object)+": "+heading, ": "))
	for _, s := range append(c.sections(j), section{"as submitted", fields("", j.Spec)},
		section{"found out", fields("", j.Data)}) {
		if err := c.printSection(&s); err != nil {
			return err
		}
	}
	c.Page(j.Links["page"])
	return nil
}

// pageOf prints the address of a job's page.
func (c *Commands) pageOf(ctx context.Context, api *client.Client, id job.ID) error {
	if !c.Out.Terminal {
		return nil
	}
	j, err := api.Job(ctx, id)
	c.Page(j.Links["page"])
	return err
}

// section is a part of what show prints.
type section struct {
	name  string
	pairs [][2]string
}

// printSection prints the fields that have a value, below the name of the section.
func (c *Commands) printSection(s *section) error {
	var pairs [][2]string
	for _, pair := range s.pairs {
		value := c.Out.Local(pair[1])
		if first, rest, many := strings.Cut(strings.TrimSpace(value), "\n"); many {
			value = fmt.Sprintf("%s ... (%d lines; -o json has all)", first, 2+strings.Count(rest, "\n"))
		}
		if value != "" {
			pairs = append(pairs, [2]string{fmt.Sprintf("  %-20s", pair[0]+":"), value})
		}
	}
	if len(pairs) > 0 && s.name != "" {
		c.Out.Line("%s", s.name)
	}
	return c.Out.Sheet(pairs)
}

// sections gives what is known of a job, but for what was submitted and found out.
func (c *Commands) sections(j *client.Job) []section {
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	progress, children, worker := "", "", ""
	if p := j.Progress; p != nil {
		progress = fmt.Sprintf("%d %s", p.Done, p.Unit)
		if p.Total > 0 {
			progress = fmt.Sprintf("%d of %d %s (%d%%)", p.Done, p.Total, p.Unit, p.Done*100/p.Total)
		}
	}
	if j.Children.Expected > 0 {
		children = counts(j.Children)
	}
	if j.Claimed() {
		worker = fmt.Sprintf("%s (claim %d until %s)", j.Worker, j.Epoch, c.Out.Moment(j.Until))
	}
	var late []string
	for _, m := range j.Undelivered {
		status := "pending"
		if m.Settled != job.Pending {
			status = string(m.Settled)
		}
		late = append(late, fmt.Sprintf("%s (%s, %s: %s)", m.Key, m.Topic, status, m.Error))
	}
	return []section{
		{"", [][2]string{
			{"id", string(j.ID)}, {"kind", string(j.Kind)}, {"title", j.Title}, {"object", j.Object},
			{"state", string(j.State)},
			{"outcome", string(j.Outcome)}, {"message", j.Message}, {"cause", j.Cause},
			{"undelivered", strings.Join(late, "; ")},
			{"progress", progress}, {"children", children}, {"last success", string(j.LastOK)},
			{"failed in", string(j.Origin)},
		}},
		{"work", [][2]string{
			{"priority", strconv.Itoa(j.Priority)}, {"parent", string(j.Parent)}, {"group", j.Group},
			{"owner", j.Owner}, {"requires", strings.Join(j.Requires, ", ")},
			{"key", j.Key}, {"worker", worker}, {"attempts", number(j.Attempts)}, {"retries", number(j.Retries)},
			{"version", strconv.FormatInt(j.Version, 10)}, {"number", strconv.FormatInt(j.Number, 10)},
			{"operator can", Events(j.Can["operator"])}, {"owner can", Events(j.Can["owner"])},
		}},
		{"times", [][2]string{
			{"due", c.Out.Moment(j.Due)}, {"deadline", c.Out.Moment(j.Deadline)}, {"expires", c.Out.Moment(j.Expires)},
			{"created", c.Out.Moment(j.Created)}, {"entered", c.Out.Moment(j.Entered)},
			{"changed", c.Out.Moment(j.Changed)},
		}},
	}
}

// fields gives the values of a JSON object by their path, in the order of their names; a list of plain values is one.
func fields(path string, text json.RawMessage) [][2]string {
	var object map[string]json.RawMessage
	var list []json.RawMessage
	var word string
	switch {
	case len(text) == 0 || string(text) == "null":
		return nil
	case json.Unmarshal(text, &object) == nil:
		var all [][2]string
		for _, name := range slices.Sorted(maps.Keys(object)) {
			all = append(all, fields(strings.TrimPrefix(path+"."+name, "."), object[name])...)
		}
		return all
	case json.Unmarshal(text, &list) == nil:
		var all [][2]string
		var plain []string
		for i, one := range list {
			inner := fields(path+"."+strconv.Itoa(i+1), one)
			all = append(all, inner...)
			if len(one) > 0 && one[0] != '{' && one[0] != '[' && len(inner) == 1 {
				plain = append(plain, inner[0][1])
			}
		}
		if len(plain) == len(list) {
			return [][2]string{{path, strings.Join(plain, ", ")}}
		}
		return all
	case json.Unmarshal(text, &word) == nil:
		return [][2]string{{path, word}}
	}
	return [][2]string{{path, string(text)}}
}

// Events joins event names.
func Events(all []lifecycle.Event) string {
	words := make([]string, len(all))
	for i, e := range all {
		words[i] = string(e)
	}
	return strings.Join(words, ", ")
}
