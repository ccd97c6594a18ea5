package host

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
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
)

// mostUploads is how many resumable uploads an owner may have that no order has taken.
const mostUploads = 1000

// uploadStore joins the server to the store of resumable uploads, and removes those that were left.
type uploadStore struct {
	*tus.Store
	running *Server // for its engine, which is there before a request comes
	log     *slog.Logger
	stop    chan struct{}
	wait    sync.WaitGroup
}

// openUploads opens the store of resumable uploads in the data directory. Close it after the HTTP server.
func openUploads(s *Settings, r *Server) (*uploadStore, error) {
	u := &uploadStore{running: r, log: r.Log, stop: make(chan struct{})}
	var err error
	u.Store, err = tus.New(tus.Options{
		Dir: filepath.Join(r.Data, "uploads"), MaxSize: s.UploadBytes, Fail: computehttp.FailUpload(r.Log), Clock: u.now,
		Owner: func(r *http.Request) string { return server.OwnerOf(r.Context()) },
		MayCreate: func(owner string, bytes int64) error {
			n, used := u.Used(owner)
			switch {
			case n >= mostUploads:
				return fmt.Errorf("there are %d uploads already that no order has taken: remove some, or wait until they expire", n)
			case s.ComputeUserBytes > 0 && used+bytes > s.ComputeUserBytes:
				return fmt.Errorf("with this upload of %d bytes there would be more than the %d that a user may have", bytes, s.ComputeUserBytes)
			}
			return nil
		},
		Space: r.space.Admit,
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
			if u.running.Engine.Frozen() {
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
	if u.running.Engine == nil {
		return time.Now()
	}
	return u.running.Engine.Guard().State().Trusted
}

// Close ends the sweeps and gives up the directory.
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

// serveCompute gives the API what it needs of compute, if the server computes.
func (r *Server) serveCompute(s *Settings, o *computehttp.Options) error {
	if r.Compute == nil {
		return nil
	}
	uploads, err := openUploads(s, r)
	if err != nil {
		return err
	}
	r.closers = append(r.closers, uploads)
	o.Compute, o.ComputeUploads = r.Compute.App, uploads
	o.ComputeTunnel, o.TES = r.Compute.tunnels, r.Compute.tes
	return nil
}
