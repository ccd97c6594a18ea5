package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/source/moodle/replay"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/format/rfc3161/authority"
	"github.com/stagepost/stagepost/job"
)

// Names of the archive part of a demo below its data directory, and in its configuration.
const (
	campusName = "campus" // token and root certificate; the two storage locations
	course     = "5"
)

// campus is a Moodle and a time-stamp authority on this machine, as long as the demo runs.
type campus struct {
	stop   context.CancelFunc
	moodle <-chan struct{}
	stamps *http.Server
	ended  chan error
}

// openCampus starts both and writes the configuration that names them.
func openCampus(dir string) (c *campus, err error) {
	m, err := replay.New()
	if err != nil {
		return nil, err
	}
	a, err := authority.New("Demo authority", time.Now())
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c = &campus{
		stop: stop, ended: make(chan error, 1),
		stamps: &http.Server{Handler: a, ReadHeaderTimeout: time.Minute},
	}
	go func() { c.ended <- c.stamps.Serve(l) }()
	address, done, err := m.Listen(ctx, 0)
	if err != nil {
		stop()
		return nil, errors.Join(err, c.stamps.Close())
	}
	c.moodle = done
	return c, errors.Join(configureArchive(dir, address, "http://"+l.Addr().String(), a.RootPEM()))
}

// Close ends both.
func (c *campus) Close() error {
	c.stop()
	<-c.moodle
	err := c.stamps.Close()
	if ended := <-c.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// configureArchive writes archive.yaml and what it names.
func configureArchive(dir, moodle, stamps string, root []byte) error {
	at := filepath.Join(dir, campusName)
	for _, name := range []string{"near", "far"} {
		if err := os.MkdirAll(filepath.Join(at, name), 0o700); err != nil {
			return err
		}
	}
	text := fmt.Sprintf(`organization: Demo campus
sources:
  campus: {moodle: {url: %q, token_file: %q}}
locations:
  near: {directory: {path: %q}}
  far: {directory: {path: %q}}
authorities:
  - {name: demo, url: %q, roots: [%q]}
`, moodle, filepath.Join(at, "token"), filepath.Join(at, "near"), filepath.Join(at, "far"), stamps,
		filepath.Join(at, "root.pem"))
	for name, content := range map[string][]byte{
		filepath.Join(at, "token"):         []byte(replay.Token + "\n"),
		filepath.Join(at, "root.pem"):      root,
		filepath.Join(dir, "archive.yaml"): []byte(text),
	} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// archive archives a course of the Moodle and shows what was stored where.
func (d *demo) archive(ctx context.Context) error {
	d.line("")
	d.command("archive run campus %s", course)
	j, err := d.api.SubmitArchive(ctx, client.ArchiveOrder{
		ArchiveRequest: client.ArchiveRequest{Source: campusName, Course: course}, Owner: "demo",
	})
	if err != nil {
		return err
	}
	state := ""
	err = d.api.Watch(ctx, j.ID, 0, func(u client.Update) error {
		if u.Job == nil {
			return nil
		}
		state = string(u.Job.State)
		if u.Job.Ended {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if state != string(archive.Completed) {
		return fmt.Errorf("the archive %s is %s", j.ID, state)
	}
	return d.archived(ctx, j.ID)
}

// archived shows an archive.
func (d *demo) archived(ctx context.Context, id job.ID) error {
	a, err := d.api.Archive(ctx, id)
	if err != nil {
		return err
	}
	var modules, locations []string
	for _, one := range a.Activities {
		modules = append(modules, one.Module)
	}
	for _, one := range a.Stored {
		locations = append(locations, fmt.Sprintf("%s (%d files)", one.Location, one.Copies))
	}
	d.line("A course of a Moodle: %d activities (%s)", len(a.Activities), strings.Join(modules, ", "))
	stored := "stored and read back: " + strings.Join(locations, ", ")
	for _, s := range a.Stamps {
		stored += "; time stamp by " + s.Authority
	}
	d.line("  %s", stored)
	return nil
}
