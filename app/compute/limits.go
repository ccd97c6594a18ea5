package compute

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/stagepost/stagepost/quantity"
)

// Limits bound what a payload may use. Zero fields: no bound of their own.
type Limits struct {
	Wall   time.Duration `json:"wall,omitempty" yaml:"wall"` // nanoseconds in JSON
	CPU    time.Duration `json:"cpu,omitempty" yaml:"cpu"`
	Memory int64         `json:"memory,omitempty" yaml:"memory"` // bytes, of all its processes
	Disk   int64         `json:"disk,omitempty" yaml:"disk"`     // bytes, inputs included
	// bytes of standard output and of standard error each; the rest is cut
	Output    int64   `json:"output,omitempty" yaml:"output"`
	Processes int     `json:"processes,omitempty" yaml:"processes"` // threads count
	Cores     float64 `json:"cores,omitempty" yaml:"cores"`
	Files     int     `json:"files,omitempty" yaml:"files"` // open ones, per process
}

// Over lays the limits that are set over others.
func (l Limits) Over(base Limits) Limits {
	return Limits{
		Wall: either(l.Wall, base.Wall), CPU: either(l.CPU, base.CPU), Memory: either(l.Memory, base.Memory),
		Disk:   either(l.Disk, base.Disk),
		Output: either(l.Output, base.Output), Processes: either(l.Processes, base.Processes),
		Cores: either(l.Cores, base.Cores), Files: either(l.Files, base.Files),
	}
}

func either[T comparable](a, b T) T {
	var zero T
	if a != zero {
		return a
	}
	return b
}

// Within reports what of the limits is more than most allows, all of it at once. A zero in most allows all; a zero in l
// asks for nothing.
func (l Limits) Within(most Limits) error {
	var wrong []error
	exceeds(&wrong, "wall", l.Wall, most.Wall, quantity.FormatDuration)
	exceeds(&wrong, "cpu", l.CPU, most.CPU, quantity.FormatDuration)
	exceeds(&wrong, "memory", l.Memory, most.Memory, sizeText)
	exceeds(&wrong, "disk", l.Disk, most.Disk, sizeText)
	exceeds(&wrong, "output", l.Output, most.Output, sizeText)
	exceeds(&wrong, "processes", l.Processes, most.Processes, strconv.Itoa)
	exceeds(&wrong, "cores", l.Cores, most.Cores, coresText)
	exceeds(&wrong, "files", l.Files, most.Files, strconv.Itoa)
	return errors.Join(wrong...)
}

// exceeds notes a limit that is more than it may be. Where people's words for both are the same, the plain numbers show
// the difference.
func exceeds[T ~int | ~int64 | ~float64](wrong *[]error, name string, l, most T, text func(T) string) {
	var zero T
	switch {
	case l < zero:
		*wrong = append(*wrong, fmt.Errorf("%s must not be negative", name))
	case most != zero && l > most:
		asked, allowed := text(l), text(most)
		if asked == allowed {
			asked, allowed = fmt.Sprintf("%v", l), fmt.Sprintf("%v", most)
		}
		*wrong = append(*wrong, fmt.Errorf("%s %s is more than the %s that its service allows", name, asked, allowed))
	}
}

func coresText(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }
