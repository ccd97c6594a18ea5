package agent

import (
	"io"

	"github.com/stagepost/stagepost/app/compute"
)

// askEvery is after how many bytes of what is being received the disk is asked for its space: what was there when a
// file began may have gone to others meanwhile.
const askEvery = 16 << 20

// guarded is a file that is being received. It is refused when the disk has no space but the reserve.
type guarded struct {
	io.Writer
	app  *App
	left int64 // before the disk is asked
}

func (a *App) guardDisk(w io.Writer) io.Writer { return &guarded{Writer: w, app: a, left: askEvery} }

// Write is part of io.Writer. A disk that does not answer is no reason to refuse.
func (g *guarded) Write(p []byte) (int, error) {
	if g.left -= int64(len(p)); g.left < 0 {
		g.left = askEvery
		if g.app.full() {
			return 0, &compute.Refusal{Reason: "the agent's disk is full", Here: true, Full: true}
		}
	}
	return g.Writer.Write(p)
}

// full reports whether the disk has no space but the reserve.
func (a *App) full() bool {
	free, err := a.options.Disk(a.options.Dir)
	return err == nil && free < a.options.Reserve
}
