package tes

import (
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/quantity"
)

// Bounds of a task.
const (
	mostExecutors = 100
	mostInputs    = 5000
	mostTask      = 1 << 20 // bytes of its JSON without contents
	mostLabels    = 64
	mostLabel     = 256 // bytes
	mostName      = 200 // bytes of the job's name
)

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// checked is a task whose paths are clean and whose fields make sense.
type checked struct {
	Task
	paths paths
}

func invalid(format string, args ...any) error {
	return job.Errorf(job.Invalid, "tes", "", format, args...)
}

// check gives a task in which everything is as the script needs it. The task itself is not changed.
func check(t Task) (*checked, error) {
	c := &checked{Task: t}
	c.Inputs, c.Outputs, c.Executors, c.Volumes = slices.Clone(t.Inputs), slices.Clone(t.Outputs),
		slices.Clone(t.Executors), slices.Clone(t.Volumes)
	switch {
	case len(c.Executors) == 0:
		return nil, invalid("executors is empty: a task has at least one")
	case len(c.Executors) > mostExecutors || len(c.Inputs) > mostInputs || len(c.Outputs) > mostInputs ||
		len(c.Volumes) > mostInputs:
		return nil, invalid("a task has at most %d executors and %d inputs, outputs and volumes each", mostExecutors,
			mostInputs)
	}
	for _, part := range []func() error{c.checkInputs, c.checkOutputs, c.checkVolumes, c.checkExecutors} {
		if err := part(); err != nil {
			return nil, invalid("%w", err)
		}
	}
	c.paths.sort()
	return c, nil
}

// path checks a path where it stands and declares it.
func (c *checked) path(where *string, format string, args ...any) error {
	name, err := cleaned(fmt.Sprintf(format, args...), *where)
	if err != nil {
		return err
	}
	*where = name
	c.paths.declare(name)
	return nil
}

func (c *checked) checkInputs() error {
	seen := map[string]bool{}
	for i := range c.Inputs {
		in := &c.Inputs[i]
		if err := c.path(&in.Path, "inputs[%d].path", i); err != nil {
			return err
		}
		switch {
		case in.Type == TypeDirectory:
			return fmt.Errorf("inputs[%d] is a DIRECTORY, which this server does not take: give its files one by "+
				"one, or as one archive", i)
		case in.Type != "" && in.Type != TypeFile:
			return fmt.Errorf("inputs[%d].type must be FILE, not %.40q", i, in.Type)
		case in.Content == "" && in.URL == "":
			return fmt.Errorf("inputs[%d] has neither content nor url", i)
		case seen[in.Path]:
			return fmt.Errorf("two inputs have the path %.100q", in.Path)
		}
		seen[in.Path] = true
	}
	for name := range seen {
		for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
			if seen[dir] {
				return fmt.Errorf("the input %.100q is a file, and %.100q would lie in it", dir, name)
			}
		}
	}
	return nil
}

func (c *checked) checkOutputs() error {
	for i := range c.Outputs {
		o := &c.Outputs[i]
		if o.Type != "" && o.Type != TypeFile && o.Type != TypeDirectory {
			return fmt.Errorf("outputs[%d].type must be FILE or DIRECTORY, not %.40q", i, o.Type)
		}
		if o.PathPrefix == "" {
			if err := c.path(&o.Path, "outputs[%d].path", i); err != nil {
				return err
			}
			continue
		}
		if err := c.path(&o.PathPrefix, "outputs[%d].path_prefix", i); err != nil {
			return err
		}
		pattern, err := cleaned(fmt.Sprintf("outputs[%d].path", i), o.Path)
		if err != nil {
			return err
		}
		if _, err := path.Match(pattern, "/"); err != nil {
			return fmt.Errorf("outputs[%d].path %.100q is no pattern", i, o.Path)
		}
		if !strings.HasPrefix(pattern, o.PathPrefix+"/") {
			return fmt.Errorf("outputs[%d].path %.100q does not begin with its path_prefix", i, o.Path)
		}
		o.Path = pattern
	}
	return nil
}

func (c *checked) checkVolumes() error {
	for i := range c.Volumes {
		if err := c.path(&c.Volumes[i], "volumes[%d]", i); err != nil {
			return err
		}
	}
	return nil
}

func (c *checked) checkExecutors() error {
	for i := range c.Executors {
		e := &c.Executors[i]
		if e.Image == "" {
			return fmt.Errorf("executors[%d].image is missing", i)
		}
		if len(e.Command) == 0 || e.Command[0] == "" {
			return fmt.Errorf("executors[%d].command is empty", i)
		}
		for n, w := range e.Command {
			if strings.ContainsRune(w, 0) || !utf8.ValidString(w) {
				return fmt.Errorf("executors[%d].command[%d] has a NUL in it, or is no text", i, n)
			}
		}
		for name, value := range e.Env {
			if !variable.MatchString(name) || strings.ContainsRune(value, 0) || !utf8.ValidString(value) {
				return fmt.Errorf("executors[%d].env: %.60q is no name of a variable, or its value has a NUL in it", i,
					name)
			}
		}
		for field, where := range map[string]*string{"workdir": &e.Workdir, "stdin": &e.Stdin, "stdout": &e.Stdout,
			"stderr": &e.Stderr} {
			if *where == "" {
				continue
			}
			if field == "workdir" && path.Clean(*where) == "/" {
				e.Workdir = ""
				continue
			}
			if err := c.path(where, "executors[%d].%s", i, field); err != nil {
				return err
			}
		}
	}
	return nil
}

// Parameters are the backend parameters that are known, and what each is.
var Parameters = []string{"wall", "cpu", "output", "processes", "files"}

// limits makes limits of what a task asks for.
func (r *Resources) limits() (l compute.Limits, err error) {
	if r == nil {
		return l, nil
	}
	if !(r.Cores >= 0 && r.Cores <= 1e6) {
		return l, invalid("resources.cpu_cores is no number of processors")
	}
	l.Cores = r.Cores
	for _, one := range []struct {
		name string
		from float64
		into *int64
	}{{"ram_gb", r.RAM, &l.Memory}, {"disk_gb", r.Disk, &l.Disk}} {
		if !(one.from >= 0) || one.from > math.MaxInt64>>31 {
			return l, invalid("resources.%s is no size", one.name)
		}
		*one.into = int64(one.from * (1 << 30))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Parameters)) {
		if err := parameter(&l, strings.ToLower(name), r.Parameters[name], r.Strict); err != nil {
			return l, invalid("resources.backend_parameters.%.60s: %w", name, err)
		}
	}
	return l, nil
}

// parameter takes one backend parameter; one that is not known is a mistake if the task is strict, and nothing else
// (the standard reports it).
func parameter(l *compute.Limits, name, value string, strict bool) (err error) {
	switch name {
	case "wall":
		l.Wall, err = quantity.ParseDuration(value)
	case "cpu":
		l.CPU, err = quantity.ParseDuration(value)
	case "output":
		l.Output, err = quantity.ParseBytes(value)
	case "processes":
		l.Processes, err = strconv.Atoi(value)
	case "files":
		l.Files, err = strconv.Atoi(value)
	default:
		if strict {
			return fmt.Errorf("there is no such parameter (known: %s)", strings.Join(Parameters, ", "))
		}
	}
	if err == nil && (l.Processes < 0 || l.Files < 0) {
		err = fmt.Errorf("%q is negative", value)
	}
	return err
}

// labels gives the tags that can be labels: a name without = and comma, a value without comma, both short and
// printable.
func labels(tags map[string]string) map[string]string {
	all := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		value := tags[name]
		fits := name != "" && !strings.ContainsAny(name, "=,") && !strings.Contains(value, ",") &&
			len(name) <= mostLabel && len(value) <= mostLabel
		if fits && !strings.ContainsFunc(name+value, unicode.IsControl) && len(all) < mostLabels {
			all[name] = value
		}
	}
	return all
}

// jobName gives the name of a task as that of a job: shorter, and on one line.
func jobName(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	for len(text) > mostName {
		_, n := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-n]
	}
	return text
}
