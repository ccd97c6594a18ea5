package compute

import (
	"errors"
	"fmt"
	"time"
)

// Limits bound what a payload may use. Zero fields: no bound of their own.
type Limits struct {
	Wall      time.Duration `json:"wall,omitempty" yaml:"wall"` // nanoseconds in JSON
	CPU       time.Duration `json:"cpu,omitempty" yaml:"cpu"`
	Memory    int64         `json:"memory,omitempty" yaml:"memory"`       // bytes, of all its processes
	Disk      int64         `json:"disk,omitempty" yaml:"disk"`           // bytes, inputs included
	Output    int64         `json:"output,omitempty" yaml:"output"`       // bytes of standard output and of standard error each; the rest is cut
	Processes int           `json:"processes,omitempty" yaml:"processes"` // threads count
	Cores     float64       `json:"cores,omitempty" yaml:"cores"`
	Files     int           `json:"files,omitempty" yaml:"files"` // open ones, per process
}

// Over lays the limits that are set over others.
func (l Limits) Over(base Limits) Limits {
	return Limits{
		Wall: either(l.Wall, base.Wall), CPU: either(l.CPU, base.CPU), Memory: either(l.Memory, base.Memory), Disk: either(l.Disk, base.Disk),
		Output: either(l.Output, base.Output), Processes: either(l.Processes, base.Processes), Cores: either(l.Cores, base.Cores), Files: either(l.Files, base.Files),
	}
}

func either[T comparable](a, b T) T {
	var zero T
	if a != zero {
		return a
	}
	return b
}

// Within tells what of the limits is more than most allows, all of it at once. A zero in most allows all; a zero in l asks for nothing.
func (l Limits) Within(most Limits) error {
	var wrong []error
	exceeds(&wrong, "wall", l.Wall, most.Wall)
	exceeds(&wrong, "cpu", l.CPU, most.CPU)
	exceeds(&wrong, "memory", l.Memory, most.Memory)
	exceeds(&wrong, "disk", l.Disk, most.Disk)
	exceeds(&wrong, "output", l.Output, most.Output)
	exceeds(&wrong, "processes", l.Processes, most.Processes)
	exceeds(&wrong, "cores", l.Cores, most.Cores)
	exceeds(&wrong, "files", l.Files, most.Files)
	return errors.Join(wrong...)
}

func exceeds[T ~int | ~int64 | ~float64](wrong *[]error, name string, l, most T) {
	var zero T
	switch {
	case l < zero:
		*wrong = append(*wrong, fmt.Errorf("%s must not be negative", name))
	case most != zero && l > most:
		*wrong = append(*wrong, fmt.Errorf("%s %v is more than the %v that its service allows", name, l, most))
	}
}
