package module

import (
	"context"
	"io"
	"log/slog"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// Remote is the work of a module that stagepost work does on other machines than the server.
type Remote struct {
	Kinds []job.Kind // empty: kinds whose definition the server has in a file
	Doc   string     // which work that is
	Open  func(ctx context.Context, h *RemoteHost) (RemoteWork, error)
}

// RemoteHost is what a remote worker gives to the modules whose work it does.
type RemoteHost struct {
	API     *client.Client
	Name    string     // of the worker
	Kinds   []job.Kind // of the module that the worker takes
	Temp    string     // directory of working files, emptied when the worker ends
	Sandbox string     // tier that commands need: auto, native, bwrap, require or none
	Log     *slog.Logger
}

// RemoteWork are opened steps.
type RemoteWork interface {
	// Works returns the kinds with the steps that run here, unchanged as in a server ([engine.RemoteRun]).
	Works() []engine.Work
	// Refresh returns the work of a kind again, for jobs that were created under another definition.
	Refresh(ctx context.Context, k job.Kind) (*engine.Work, error)
	io.Closer
}
