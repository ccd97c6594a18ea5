package api

import (
	"github.com/stagepost/stagepost/lifecycle"
)

// Lifecycles is the answer about the lifecycles of the server.
type Lifecycles struct {
	Lifecycles []Lifecycle `json:"lifecycles"`
}

// Lifecycle is a lifecycle in short.
type Lifecycle struct {
	Name   string            `json:"name"`
	Hash   string            `json:"hash"`
	States []lifecycle.State `json:"states"`
	Events []lifecycle.Event `json:"events"`
	Jobs   bool              `json:"jobs"` // whether this server runs jobs of it
}

// LifecycleFile is the file of a kind of jobs, for workers that run its commands.
type LifecycleFile struct {
	Name string `json:"name"`
	Hash string `json:"hash"` // of its table
	File string `json:"file"` // the text of the YAML file
}

// NewLifecycle is the body by which a lifecycle is added.
type NewLifecycle struct {
	File  string `json:"file"` // the text of a YAML file
	Note  string `json:"note,omitempty"`
	Actor string `json:"actor,omitempty"`
}
