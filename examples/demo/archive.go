package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/source/moodle/replay"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/format/rfc3161/authority"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// Names of the archive part of a demo below its data directory, and in its configuration.
const (
	campusName = "campus" // token and root certificate; the two storage locations
	course     = "5"
)

// campus is a Moodle and a time-stamp authority on this machine, at one address: [stampsPath] is the authority.
type campus struct {
	dir    string // with what programs need that use them
	http   *http.Server
	listen string
	ended  chan error
}

const stampsPath = "/tsa"

// campusRecord is the content of campus.json: what is needed to serve the campus again.
type campusRecord struct {
	Listen string `json:"listen"`
}

// Files of a campus.
const (
	campusRecordFile = "campus.json"
	authorityFile    = "authority.pem" // with its keys
	rootFile         = "root.pem"
	tokenFile        = "token"
)

// openCampus serves the campus of a data directory, and makes it if there is none. It listens on the port; 0: on the
// port that it had, or on any free one. Only programs of this machine reach it: its passwords are known.
func openCampus(dir string, port int) (*campus, error) {
	at, err := filepath.Abs(filepath.Join(dir, campusName))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(at, 0o700); err != nil {
		return nil, err
	}
	stamps, err := authorityIn(at)
	if err != nil {
		return nil, err
	}
	m, err := replay.New()
	if err != nil {
		return nil, err
	}
	l, err := listenAgain(filepath.Join(at, campusRecordFile), port)
	if err != nil {
		return nil, err
	}
	c := &campus{dir: at, listen: l.Addr().String(), ended: make(chan error, 1)}
	mux := http.NewServeMux()
	mux.Handle(stampsPath, stamps)
	mux.Handle("/", m)
	c.http = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { c.ended <- c.http.Serve(l) }()
	err = durable.Replace(filepath.Join(at, tokenFile), []byte(replay.Token+"\n"))
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// authorityIn gives the authority of a directory, and makes it if there is none.
func authorityIn(dir string) (*authority.Authority, error) {
	name := filepath.Join(dir, authorityFile)
	text, err := os.ReadFile(name)
	if err == nil {
		return authority.Parse(text)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	a, err := authority.New("Demo authority", time.Now())
	if err != nil {
		return nil, err
	}
	if text, err = a.Marshal(); err != nil {
		return nil, err
	}
	if err := durable.Replace(filepath.Join(dir, rootFile), a.RootPEM()); err != nil {
		return nil, err
	}
	return a, durable.Replace(name, text)
}

// listenAgain listens on a port, which it records in a file; 0: on the one in the file, or on any free one.
func listenAgain(file string, port int) (net.Listener, error) {
	address := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && port != 0:
	case err != nil:
		return nil, err
	default:
		var r campusRecord
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", campusRecordFile, err)
		}
		if address, err = netip.ParseAddrPort(r.Listen); err != nil || !address.Addr().IsLoopback() {
			return nil, fmt.Errorf("%s: %q is no address on this machine", campusRecordFile, r.Listen)
		}
	}
	l, err := net.Listen("tcp4", address.String())
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, cli.Usagef("%s is in use by another program: end it, or name another port with --port N", address)
	}
	if err != nil {
		return nil, err
	}
	record, err := json.Marshal(campusRecord{Listen: l.Addr().String()})
	if err == nil {
		err = durable.Replace(file, append(record, '\n'))
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Close ends the Moodle and the authority.
func (c *campus) Close() error {
	err := c.http.Close()
	if ended := <-c.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// configure writes archive.yaml of the data directory, and makes the storage locations.
func (c *campus) configure(dir string) error {
	for _, name := range []string{"near", "far"} {
		if err := os.MkdirAll(filepath.Join(c.dir, name), 0o700); err != nil {
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
`, "http://"+c.listen, filepath.Join(c.dir, tokenFile), filepath.Join(c.dir, "near"), filepath.Join(c.dir, "far"),
		"http://"+c.listen+stampsPath, filepath.Join(c.dir, rootFile))
	return durable.Replace(filepath.Join(dir, "archive.yaml"), []byte(text))
}

// demoCampus serves a Moodle to practise with.
func (c *commands) demoCampus() *cobra.Command {
	var port int
	cmd := &cobra.Command{
		Use:   "campus",
		Short: "Serve a Moodle and a time-stamp authority to practise with",
		Long: `Serves a Moodle with one course, whose answers were recorded, and a time-stamp authority to programs of this machine,
until SIGINT or SIGTERM. The directory campus in the data directory has the token of the Moodle and the root certificate of
the authority, for archive.yaml. With the data directory of a demo it serves those of the demo again.`,
		Example: "  stagepost demo campus --port 8001\n  stagepost demo campus --data demo-data-1",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if port < 0 || port > 65535 {
				return cli.Usagef("--port must be 1 to 65535; without it the port is the one of the last time, or any")
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			campus, err := openCampus(c.Settings.Data, port)
			if err != nil {
				return err
			}
			at := nameOf(campus.dir)
			err = c.Out.Sheet([][2]string{
				{"Moodle", "http://" + campus.listen + ", course " + course}, {"token", filepath.Join(at, tokenFile)},
				{"authority", "http://" + campus.listen + stampsPath}, {"root", filepath.Join(at, rootFile)},
			})
			if err != nil {
				return errors.Join(err, campus.Close())
			}
			<-ctx.Done()
			return campus.Close()
		},
	}
	cmd.Flags().IntVar(&port, "port", 0, "port; defaults to the one of the last time, or to any")
	return cmd
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
