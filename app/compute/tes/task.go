package tes

import (
	"fmt"
	"strings"
)

// The names of fields are those of the standard (ga4gh/task-execution-schemas 1.1).

// Task is a task as clients send it, and as they see it.
type Task struct {
	ID          string            `json:"id,omitempty"`
	State       State             `json:"state,omitempty"`
	Name        string            `json:"name,omitempty"`
	Description string            `json:"description,omitempty"`
	Inputs      []Input           `json:"inputs,omitempty"`
	Outputs     []Output          `json:"outputs,omitempty"`
	Resources   *Resources        `json:"resources,omitempty"`
	Executors   []Executor        `json:"executors,omitempty"`
	Volumes     []string          `json:"volumes,omitempty"`
	Tags        map[string]string `json:"tags,omitempty"`
	Logs        []TaskLog         `json:"logs,omitempty"`
	Created     string            `json:"creation_time,omitempty"`
}

// Types of inputs and outputs.
const (
	TypeFile      = "FILE"
	TypeDirectory = "DIRECTORY"
)

// Input is a file that a task needs.
type Input struct {
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	URL         string `json:"url,omitempty"`
	Path        string `json:"path"`
	Type        string `json:"type,omitempty"`
	Content     string `json:"content,omitempty"` // goes before URL
	Streamable  bool   `json:"streamable,omitempty"`
}

// Output is a file or directory that a task makes.
type Output struct {
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	URL         string `json:"url"`
	Path        string `json:"path"` // with PathPrefix a pattern
	PathPrefix  string `json:"path_prefix,omitempty"`
	Type        string `json:"type,omitempty"`
}

// Resources are what a task asks for.
type Resources struct {
	Cores       float64           `json:"cpu_cores,omitempty"`
	Preemptible bool              `json:"preemptible,omitempty"`
	RAM         float64           `json:"ram_gb,omitempty"`
	Disk        float64           `json:"disk_gb,omitempty"`
	Zones       []string          `json:"zones,omitempty"`
	Parameters  map[string]string `json:"backend_parameters,omitempty"`
	Strict      bool              `json:"backend_parameters_strict,omitempty"`
}

// Executor is one command of a task.
type Executor struct {
	Image       string            `json:"image"`
	Command     []string          `json:"command"`
	Workdir     string            `json:"workdir,omitempty"`
	Stdin       string            `json:"stdin,omitempty"`
	Stdout      string            `json:"stdout,omitempty"`
	Stderr      string            `json:"stderr,omitempty"`
	Env         map[string]string `json:"env,omitempty"`
	IgnoreError bool              `json:"ignore_error,omitempty"`
}

// TaskLog is what happened in one attempt.
type TaskLog struct {
	Logs       []ExecutorLog     `json:"logs"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	Start      string            `json:"start_time,omitempty"`
	End        string            `json:"end_time,omitempty"`
	Outputs    []OutputLog       `json:"outputs"`
	SystemLogs []string          `json:"system_logs,omitempty"`
}

// ExecutorLog is what one executor did.
type ExecutorLog struct {
	Start  string `json:"start_time,omitempty"`
	End    string `json:"end_time,omitempty"`
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
	Exit   int    `json:"exit_code"`
}

// OutputLog is one file that was made.
type OutputLog struct {
	URL  string `json:"url"`
	Path string `json:"path"`
	Size string `json:"size_bytes"` // a text: JSON has no 64-bit numbers
}

// Page is a page of tasks.
type Page struct {
	Tasks []Task `json:"tasks"`
	Next  string `json:"next_page_token,omitempty"`
}

// Created answers to a new task.
type Created struct {
	ID string `json:"id"`
}

// Cancelled is the answer to the cancelling of a task.
type Cancelled struct{}

// View is how much of a task is shown.
type View string

// The views.
const (
	Minimal View = "MINIMAL" // id and state
	Basic   View = "BASIC"   // all but what executors wrote, contents of inputs and system logs
	Full    View = "FULL"
)

// ParseView reads a view; none is Minimal.
func ParseView(text string) (View, error) {
	switch v := View(strings.ToUpper(text)); v {
	case "":
		return Minimal, nil
	case Minimal, Basic, Full:
		return v, nil
	}
	return "", fmt.Errorf("view must be MINIMAL, BASIC or FULL, not %.40q", text)
}
