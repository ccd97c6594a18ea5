package computeserve

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	computehttp "github.com/stagepost/stagepost/app/compute/http"
	"github.com/stagepost/stagepost/edge/tus"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/module"
	"github.com/stagepost/stagepost/server"
)

// mostUploads is how many resumable uploads an owner may have that no order has taken.
const mostUploads = 1000

// uploadStore joins the server to the store of resumable uploads, and removes those that were left.
type uploadStore struct {
	*tus.Store
	engine func() *engine.Engine // nil before a server is complete
	log    *slog.Logger
	stop   chan struct{}
	wait   sync.WaitGroup
}

// newUploads opens the store of resumable uploads in the directory that all servers share: an upload that began at one
// of them continues at any other. Close it after the HTTP server.
func newUploads(s *Settings, h *module.Host) (*uploadStore, error) {
	u := &uploadStore{engine: h.Engine, log: h.Log, stop: make(chan struct{})}
	var err error
	u.Store, err = tus.New(tus.Options{
		Dir: filepath.Join(h.Dir, "uploads"), MaxSize: h.UploadBytes, Fail: computehttp.FailUpload(h.Log), Clock: u.now,
		Owner: func(r *http.Request) string { return server.OwnerOf(r.Context()) },
		MayCreate: func(owner string, bytes int64) error {
			n, used, err := u.Used(owner)
			switch {
			case err != nil:
				return job.Errorf(job.Unavailable, "uploads", "", "the uploads cannot be counted: %w", err)
			case n >= mostUploads:
				return fmt.Errorf("there are %d uploads already that no order has taken: remove some, or wait until "+
					"they expire", n)
			case s.UserBytes > 0 && used+bytes > s.UserBytes:
				return fmt.Errorf("with this upload of %d bytes there would be more than the %d that a user may have",
					bytes, s.UserBytes)
			}
			return nil
		},
		Space: h.Admit,
	})
	if err != nil {
		return nil, err
	}
	u.wait.Go(u.sweep)
	return u, nil
}

// sweep removes expired uploads, once an hour.
func (u *uploadStore) sweep() {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		select {
		case <-u.stop:
			return
		case <-tick.C:
			now := u.now()
			if u.engine().Clock().State().Doubt != "" {
				continue
			}
			if n, err := u.Sweep(now); err != nil || n > 0 {
				u.log.Info("uploads that were left are removed", "uploads", n, "error", err)
			}
		}
	}
}

// now is the trusted time: uploads do not expire because the machine's clock was set forward.
func (u *uploadStore) now() time.Time {
	if u.engine() == nil {
		return time.Now()
	}
	return u.engine().Clock().State().Trusted
}

// Close ends the sweeps and abandons the directory.
func (u *uploadStore) Close() error {
	close(u.stop)
	u.wait.Wait()
	return u.Store.Close()
}

// Take gives a complete upload to one order.
func (u *uploadStore) Take(id, owner string) (computehttp.ComputeUpload, error) {
	up, err := u.Store.Take(id, owner)
	switch {
	case err == nil:
		return computehttp.ComputeUpload{Name: up.Name, Path: up.Path}, nil
	case errors.Is(err, tus.ErrNotFound):
		return computehttp.ComputeUpload{}, job.Errorf(job.NotFound, "uploads", "", "%w: %.40q", err, id)
	case errors.Is(err, tus.ErrIncomplete), errors.Is(err, tus.ErrBusy):
		return computehttp.ComputeUpload{}, job.Errorf(job.Refused, "uploads", "", "%w: %.40q", err, id)
	}
	return computehttp.ComputeUpload{}, job.Errorf(job.Unavailable, "uploads", "", "%w", err)
}

// openUploads opens the uploads of the application.
func (c *App) openUploads() (err error) {
	c.uploads, err = newUploads(c.s, c.h)
	return err
}
