package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/quantity"
)

// ComputeOrder asks for a compute job. Its files come with it (inline, as parts of a form) or were uploaded before;
// one of them is run.sh, unless there is a command.
type ComputeOrder struct {
	Service string `json:"service"`
	Name    string `json:"name,omitempty"` // for people
	// with a user's token its own; without authentication it defaults to "anonymous"
	Owner    string            `json:"owner,omitempty"`
	Command  *ComputeCommand   `json:"command,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Limits   ComputeLimits     `json:"limits,omitzero"`
	Labels   map[string]string `json:"labels,omitempty"`
	Requires []string          `json:"requires,omitempty"` // labels that its agent must have, such as gpu
	Inputs   *bool             `json:"inputs,omitempty"`   // in the results; missing: as the service has it
	Priority *int              `json:"priority,omitempty"` // 0..99, lower goes first
	// idempotency key: a second order with it and the same content gives the first one's job
	Key string `json:"key,omitempty"`
	// a URL that is notified of the job's end, where the service allows it
	Callback string          `json:"callback,omitempty"`
	Files    []ComputeInline `json:"files,omitempty"` // small ones
	// ids of complete resumable uploads; their metadata has their names
	Uploads []string `json:"uploads,omitempty"`
	Note    string   `json:"note,omitempty"`  // why
	Actor   string   `json:"actor,omitempty"` // who
}

// ComputeInline is a small file in an order: text, or base64 of any bytes.
type ComputeInline struct {
	Name   string `json:"name"` // one path element
	Text   string `json:"text,omitempty"`
	Base64 []byte `json:"base64,omitempty"`
}

// ComputeCommand is what is run: words as they are, or a text for bash. In JSON it is a list or a string.
type ComputeCommand struct {
	Words []string
	Shell string
}

// MarshalJSON is part of json.Marshaler.
func (c ComputeCommand) MarshalJSON() ([]byte, error) {
	if c.Words != nil {
		return json.Marshal(c.Words)
	}
	return json.Marshal(c.Shell)
}

// UnmarshalJSON is part of json.Unmarshaler.
func (c *ComputeCommand) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '[' {
		return json.Unmarshal(text, &c.Words)
	}
	if err := json.Unmarshal(text, &c.Shell); err != nil {
		return fmt.Errorf("command must be a list of words or a text")
	}
	return nil
}

// Script makes run.sh of a command. The words are between single quotes, in which bash has no special characters:
// whatever they are, they arrive as they were given.
func (c *ComputeCommand) Script() (string, error) {
	const first = "#!/bin/bash\n"
	if c.Words == nil {
		if strings.TrimSpace(c.Shell) == "" {
			return "", job.Errorf(job.Invalid, "compute", "", "the command is empty")
		}
		if strings.ContainsRune(c.Shell, 0) {
			return "", job.Errorf(job.Invalid, "compute", "", "the command has a NUL in it")
		}
		return first + strings.TrimSuffix(c.Shell, "\n") + "\n", nil
	}
	if len(c.Words) == 0 || c.Words[0] == "" {
		return "", job.Errorf(job.Invalid, "compute", "", "the command is empty")
	}
	quoted := make([]string, len(c.Words))
	for i, w := range c.Words {
		if strings.ContainsRune(w, 0) {
			return "", job.Errorf(job.Invalid, "compute", "", "word %d of the command has a NUL in it", i+1)
		}
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return first + "exec -- " + strings.Join(quoted, " ") + "\n", nil
}

// ComputeLimits bound what a job may use. Zero: as the service has it.
type ComputeLimits struct {
	Wall      Seconds `json:"wall,omitempty"`
	CPU       Seconds `json:"cpu,omitempty"`
	Memory    Bytes   `json:"memory,omitempty"`
	Disk      Bytes   `json:"disk,omitempty"`
	Output    Bytes   `json:"output,omitempty"` // of standard output and of standard error each; the rest is cut
	Processes int     `json:"processes,omitempty"`
	Cores     float64 `json:"cores,omitempty"`
	Files     int     `json:"files,omitempty"` // open ones, per process
}

// Seconds are a duration: in JSON a number of seconds, or a text such as "90s", "2h" or "1d12h" where one is read.
type Seconds time.Duration

// MarshalJSON is part of json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

// UnmarshalJSON is part of json.Unmarshaler.
func (s *Seconds) UnmarshalJSON(text []byte) error {
	value := plain(text)
	d, err := ParseSeconds(value)
	*s = Seconds(d)
	return named("duration", value, err)
}

// Bytes are a number of bytes: in JSON a number, or a text such as "512MiB" or "4GB" where one is read.
type Bytes int64

// UnmarshalJSON is part of json.Unmarshaler.
func (b *Bytes) UnmarshalJSON(text []byte) error {
	var n float64
	// 1e9 and 1024.0 are whole numbers of JSON
	if json.Unmarshal(text, &n) == nil && n == math.Trunc(n) && n >= 0 && n < 1<<53 {
		*b = Bytes(n)
		return nil
	}
	value := plain(text)
	size, err := quantity.ParseBytes(value)
	*b = Bytes(size)
	return named("size", value, err)
}

// plain returns a JSON string without its quotes, and anything else as it is.
func plain(text []byte) string {
	var s string
	if json.Unmarshal(text, &s) == nil {
		return s
	}
	return string(text)
}

// ParseSeconds reads seconds ("90", "1.5") or a duration ("90s", "2h30m", "1d12h").
func ParseSeconds(text string) (time.Duration, error) {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		if !(n >= 0 && n <= math.MaxInt64/float64(time.Second)-1) {
			return 0, errors.New("it is negative or too long")
		}
		return time.Duration(n * float64(time.Second)), nil
	}
	return quantity.ParseDuration(text)
}

// ParseComputeLimits reads "wall=10m,memory=2GiB,...", as the command line has it.
func ParseComputeLimits(text string) (l ComputeLimits, err error) {
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return l, fmt.Errorf("a limit is name=value, not %.60q", part)
		}
		if err := l.set(name, value); err != nil {
			return l, err
		}
	}
	return l, nil
}

func (l *ComputeLimits) set(name, value string) error {
	durations := map[string]*Seconds{"wall": &l.Wall, "cpu": &l.CPU}
	sizes := map[string]*Bytes{"memory": &l.Memory, "disk": &l.Disk, "output": &l.Output}
	counts := map[string]*int{"processes": &l.Processes, "files": &l.Files}
	switch {
	case durations[name] != nil:
		d, err := ParseSeconds(value)
		*durations[name] = Seconds(d)
		return named(name, value, cmp.Or(err, unset(d == 0)))
	case sizes[name] != nil:
		n, err := quantity.ParseBytes(value)
		*sizes[name] = Bytes(n)
		return named(name, value, cmp.Or(err, unset(n == 0)))
	case counts[name] != nil:
		n, err := strconv.Atoi(value)
		*counts[name] = n
		return named(name, value, cmp.Or(err, unset(n == 0)))
	case name == "cores":
		n, err := strconv.ParseFloat(value, 64)
		if err == nil && !(n >= 0 && n <= 1e6) {
			err = fmt.Errorf("%.40q is no number of cores", value)
		}
		l.Cores = n
		return named(name, value, cmp.Or(err, unset(n == 0)))
	}
	return fmt.Errorf("there is no limit %.40q (known: wall, cpu, memory, disk, output, processes, cores, files)", name)
}

// unset refuses a limit of 0, which is not sent: the limit of the service would apply.
func unset(zero bool) error {
	if zero {
		return errors.New("it must be more than 0; without it, the limit of the service applies")
	}
	return nil
}

func named(name, value string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %.40q: %w", name, value, err)
	}
	return nil
}
