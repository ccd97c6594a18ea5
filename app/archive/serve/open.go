package archiveserve

import (
	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/module"
	"github.com/stagepost/stagepost/server"
)

// App is the archive application in a server.
type App struct {
	*archive.App
}

// Open opens the application, or gives nil if there is no configuration.
func Open(*module.Host, *Settings) (*App, error) { return nil, nil }

// Close is part of [module.App].
func (a *App) Close() error { return nil }

// Part gives the routes. A nil app refuses every request.
func Part(*server.Server, module.App) server.Part { return server.Part{} }
