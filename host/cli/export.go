package hostcli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/edge/timestamp"
	"github.com/stagepost/stagepost/format/rfc3161"
	"github.com/stagepost/stagepost/history"
)

func (c *commands) export() *cobra.Command {
	return &cobra.Command{
		Use:   "export FILE",
		Short: "Write the histories of all jobs into a file that can be verified without a server",
		Long: `Writes a ZIP file with the history of every job, the audit log, the anchors and their time stamps. stagepost verify checks it
without a server. It contains what people wrote as reasons, and messages of errors; it has no specifications of jobs.

On a running server the export goes through its API. On a data directory without a server it opens the store itself.`,
		Example: "  stagepost admin export histories.zip\n  stagepost verify histories.zip --ca root.pem",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			size, err := writeNew(args[0], func(w io.Writer) error { return c.writeExport(ctx, w) })
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(map[string]any{"file": args[0], "bytes": size})
			}
			return c.Out.Sheet([][2]string{{"file", args[0]}, {"bytes", strconv.FormatInt(size, 10)}})
		},
	}
}

// writeNew writes a file that does not exist yet, whole or not at all.
func writeNew(name string, fill func(io.Writer) error) (size int64, err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	if info, wrong := f.Stat(); wrong == nil {
		size = info.Size()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, os.Remove(name))
	}
	return size, err
}

// damage is the error of an export that is not what was recorded.
type damage struct{ cli.Faults }

func (c *commands) verifyExport() *cobra.Command {
	var roots []string
	var checkpoints checkpointFlags
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Verify an export of histories, without a server",
		Long: `Verifies a file of stagepost admin export without a server and a data directory: the hash of every entry and the chain of them,
that the anchors have each history as it is in the file, the chain of anchors, and their time stamps (RFC 3161). It lists what was
changed, removed or inserted, and between which anchors. What is newer than the newest anchor has only its hashes.

--ca names files with the certificates of authorities that you trust; without it time stamps are faults. With --key and --checkpoints
the histories are compared with signed checkpoints in place of anchors, as stagepost admin verify --key does. The exit code is 5 if
there is a fault. stagepost admin verify compares the histories of a data directory with its records.`,
		Example: "  stagepost verify histories.zip --ca root.pem",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			if (len(checkpoints.keys) > 0) != (checkpoints.file != "") || len(checkpoints.keys) > 0 && len(roots) > 0 {
				return cli.Usagef("--key and --checkpoints go together, and not with --ca")
			}
			trusted, err := trust(roots)
			if err != nil {
				return err
			}
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, f.Close()) }()
			if len(checkpoints.keys) > 0 {
				return c.verifyExported(ctx, f, &checkpoints)
			}
			info, err := f.Stat()
			if err != nil {
				return err
			}
			r, err := history.Verify(ctx, f, info.Size(), trusted, time.Now())
			if err != nil {
				return err
			}
			return c.printExport(&r)
		},
	}
	checkpoints.add(cmd, "")
	cmd.Flags().StringArrayVar(&roots, "ca", nil, "file with certificates (PEM) that are trusted; may be given again")
	return cmd
}

// verifyExported compares an export with checkpoints.
func (c *commands) verifyExported(ctx context.Context, export *os.File, f *checkpointFlags) (err error) {
	file, checkpoints, err := f.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := export.Stat()
	if err != nil {
		return err
	}
	keys, err := f.trusted()
	if err != nil {
		return err
	}
	r, err := history.VerifyCheckpoints(ctx, export, info.Size(), checkpoints, keys, time.Now())
	if err != nil {
		return err
	}
	return c.printExport(&r)
}

// trust reads certificates. It gives nil without files.
func trust(files []string) (*rfc3161.Verifier, error) {
	if len(files) == 0 {
		return nil, nil
	}
	v, err := timestamp.Trust(files)
	if err != nil {
		err = cli.Usagef("--ca %w", err)
	}
	return v, err
}

func (c *commands) printExport(r *history.Report) error {
	var bad error
	if r.Count > 0 {
		bad = damage{cli.Faults{N: r.Count}}
	}
	if c.Out.Mode == cli.ModeJSON {
		return errors.Join(c.Out.JSON(r), bad)
	}
	if r.First != 0 {
		c.Out.Line("checkpoint %d is the first that the histories do not extend", r.First)
	}
	for _, text := range r.Restored {
		c.Out.Line("a backup was restored, %s", text)
	}
	for _, f := range r.Faults {
		if f.Entry > 0 {
			f.Object += fmt.Sprintf(", entry %d", f.Entry)
		}
		c.Out.Line("%s: %s", f.Object, f.What)
	}
	if more := r.Count - len(r.Faults); more > 0 {
		c.Out.Line("and %d more", more)
	}
	stamped := "none"
	if n := len(r.Stamps); n > 0 {
		stamped = fmt.Sprintf("%d, the newest of %s by %s", n, c.Out.Moment(r.Stamps[n-1].Time),
			r.Stamps[n-1].Authority)
	}
	compared := checkpointRows(r)
	if compared == nil {
		compared = [][2]string{{"anchors", strconv.FormatInt(r.Anchors, 10)}, {"time stamps", stamped}}
	}
	return errors.Join(c.Out.Sheet(slices.Concat([][2]string{
		{"jobs", strconv.FormatInt(r.Jobs, 10)}, {"entries", strconv.FormatInt(r.Entries, 10)},
		{"audit log", strconv.FormatInt(r.Audit, 10)},
	}, compared, [][2]string{{"purged jobs", strconv.Itoa(r.Purged)}, {"faults", strconv.Itoa(r.Count)}})), bad)
}
