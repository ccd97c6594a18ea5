package hostcli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/history"
	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/host/stores"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

func (c *commands) checkpoint() *cobra.Command {
	return cli.Group("checkpoint", "Show the key of signed checkpoints, replace it, or record a restored backup",
		`A server signs a checkpoint of all histories and of the audit log each hour (checkpoint.every) and when it stops, with a key of its own
(checkpoint.key_file), and appends it to the file checkpoints in its data directory. stagepost admin verify --key KEY checks that the histories
extend each checkpoint: so it finds a change by a person who can write to the database and compute the hashes anew. Copy the file to where the
operators of the server cannot write, and keep the public key there.`,
		"  stagepost admin checkpoint show --data /srv/stagepost\n"+
			"  stagepost admin verify --key stagepost.pub --checkpoints /mnt/copies/checkpoints",
		c.showCheckpoint(), c.rotateKey(), c.recordRestored())
}

func (c *commands) showCheckpoint() *cobra.Command {
	return &cobra.Command{
		Use:     "show",
		Short:   "Show the public key and the last checkpoint",
		Long:    "Shows the public key that verifies checkpoints, and the last one if the file is on this machine.",
		Example: "  stagepost admin checkpoint show --data /srv/stagepost",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			key, last := "", history.Checkpoint{}
			if c.Settings.Server != "" {
				api, err := c.API()
				if err != nil {
					return err
				}
				h, err := api.Health(ctx)
				if err != nil && h.CheckpointKey == "" {
					return err
				}
				key = h.CheckpointKey
			} else {
				dir, err := c.filesDir()
				if err != nil {
					return err
				}
				local := c.host.Checkpoints(dir, nil, nil, nil)
				if key, err = local.Key(); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
				if last, err = local.Last(); err != nil {
					return err
				}
			}
			if key == "" && last.Number > 0 {
				return job.Errorf(job.NotFound, "checkpoint", "", "the key is missing, which signed checkpoint %d: "+
					"copy it back, or make another one (stagepost admin checkpoint rotate)", last.Number)
			}
			if key == "" {
				return job.Errorf(job.NotFound, "checkpoint", "", "there is no key yet: a server makes it with its "+
					"first checkpoint, unless checkpoint.every is off")
			}
			return c.printCheckpoint(key, &last)
		},
	}
}

func (c *commands) printCheckpoint(key string, last *history.Checkpoint) error {
	if c.Out.Mode == cli.ModeJSON {
		all := map[string]any{"key": key}
		if last.Number > 0 {
			all["number"], all["made"] = last.Number, last.Made
		}
		return c.Out.JSON(all)
	}
	shown := "none here"
	if last.Number > 0 {
		shown = fmt.Sprintf("%d of %s", last.Number, c.Out.Moment(last.Made))
	}
	return c.Out.Sheet([][2]string{{"key", key}, {"checkpoint", shown}})
}

// filesDir is the directory with the files of jobs, where the checkpoints are.
func (c *commands) filesDir() (string, error) {
	dir, err := filepath.Abs(c.Settings.Data)
	if err != nil {
		return "", err
	}
	o, err := c.host.Existing(dir)
	return o.Files, err
}

func (c *commands) rotateKey() *cobra.Command {
	var note, actor string
	cmd := &cobra.Command{
		Use:   "rotate --note WHY",
		Short: "Replace the key that signs checkpoints",
		Long: `Makes another key and signs a checkpoint that names it, with the old key and the new one. Verifiers that have the old public key accept the new one.
If the old key is lost, only the new one signs: give verifiers its public key as well. The reason is entered in the audit log.

No server may run on a store of kind sqlite meanwhile. Servers on PostgreSQL use the new key from their next checkpoint on.`,
		Example: `  stagepost admin checkpoint rotate --data /srv/stagepost --note "yearly"`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.signed(cmd, "checkpoint-rotate", note, actor,
				func(ctx context.Context, k *history.Checkpoints, _ *host.Maintenance) error { return k.Rotate(ctx) })
		},
	}
	cmd.Flags().StringVarP(&note, "note", "m", "", "why; is entered in the audit log")
	cmd.Flags().StringVar(&actor, "actor", "", "your name in the audit log; defaults to the login name")
	return cmd
}

func (c *commands) recordRestored() *cobra.Command {
	var note, actor, from string
	cmd := &cobra.Command{
		Use:   "restored --note WHY",
		Short: "Record that a backup was restored",
		Long: `Compares the histories with the checkpoints and signs one that has the heads of all histories as they are now: a backup was restored, and the checkpoints that
it does not extend are void. Verification then accepts that, and lists the restore with its reason. Without it verification reports removed entries. The
audit log has the reason, too.

--checkpoints names the newest copy of the file checkpoints; what the data directory lacks of it is appended first. Copy the key back first: backups do not
contain it. No server may run on a store of kind sqlite meanwhile.`,
		Example: `  stagepost admin checkpoint restored --data /srv/stagepost --note "the disk was lost" \` + "\n" +
			"    --checkpoints /mnt/copies/checkpoints",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.signed(cmd, "checkpoint-restored", note, actor,
				func(ctx context.Context, k *history.Checkpoints, d *host.Maintenance) error {
					return restored(ctx, k, d, from, cli.Whoami(actor), note)
				})
		},
	}
	cmd.Flags().StringVar(&from, "checkpoints", "", "newest copy of the file checkpoints; defaults to none")
	cmd.Flags().StringVarP(&note, "note", "m", "", "why; is entered in the audit log")
	cmd.Flags().StringVar(&actor, "actor", "", "your name in the audit log; defaults to the login name")
	return cmd
}

// restored appends what a copy of the checkpoints has more, finds the first one that the histories do not extend, and
// records that it and those after it are void.
func restored(ctx context.Context, k *history.Checkpoints, d *host.Maintenance, from, who, why string) error {
	if from != "" {
		f, err := os.Open(from)
		if err != nil {
			return err
		}
		if err := errors.Join(k.Adopt(f), f.Close()); err != nil {
			return err
		}
	}
	key, err := k.Key()
	if err != nil {
		return err
	}
	own := checkpointFlags{file: filepath.Join(d.Dir, host.CheckpointsName)}
	file, checkpoints, err := own.open()
	if err != nil {
		return err
	}
	r, err := compared(ctx, checkpoints, []string{key}, func(w io.Writer) error { return d.Export(ctx, w) })
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return k.Restored(ctx, r.First, who, why)
}

// compared compares checkpoints with an export.
func compared(ctx context.Context, checkpoints io.Reader, keys []string, export func(io.Writer) error) (
	r history.Report, err error,
) {
	f, err := os.CreateTemp("", "stagepost-verify-*.zip")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	if err := export(f); err != nil {
		return r, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return r, err
	}
	return history.VerifyCheckpoints(ctx, f, size, checkpoints, keys, time.Now())
}

// signed enters the reason in the audit log and signs a checkpoint.
func (c *commands) signed(cmd *cobra.Command, event lifecycle.Event, note, actor string,
	sign func(context.Context, *history.Checkpoints, *host.Maintenance) error) (err error) {
	if note == "" {
		return cli.Usagef("state the reason: --note WHY")
	}
	ctx, cancel := c.Patient(cmd)
	defer cancel()
	dir, err := filepath.Abs(c.Settings.Data)
	if err != nil {
		return err
	}
	o, err := c.host.Existing(dir)
	if err != nil {
		return err
	}
	store, err := stores.Open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Closer.Close()) }()
	k := c.host.Checkpoints(o.Files, store, nil, nil)
	if k == nil {
		return job.Errorf(job.Refused, "checkpoint", "", "a store of kind %s has no checkpoints",
			store.Jobs.Properties().Name)
	}
	if err := host.EnterAudit(ctx, store.Jobs, job.Audit{Event: event, By: lifecycle.Operator, Actor: actor,
		Note: note}); err != nil {
		return err
	}
	if err := sign(ctx, k, &host.Maintenance{Store: store, Dir: o.Files, Settings: c.host}); err != nil {
		return err
	}
	key, err := k.Key()
	if err != nil {
		return err
	}
	last, err := k.Last()
	if err != nil {
		return err
	}
	return c.printCheckpoint(key, &last)
}

// checkpointFlags are those of commands that verify checkpoints.
type checkpointFlags struct {
	keys []string
	file string
}

func (f *checkpointFlags) add(cmd *cobra.Command, otherwise string) {
	cmd.Flags().StringArrayVar(&f.keys, "key", nil,
		"public key of checkpoints, or a file with it: verify checkpoints; may be given again")
	cmd.Flags().StringVar(&f.file, "checkpoints", "", "file of checkpoints"+otherwise)
}

// open opens the file of checkpoints as it is now: later ones may have more than an export that is made now.
func (f *checkpointFlags) open() (*os.File, *io.SectionReader, error) {
	file, err := os.Open(f.file)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, io.NewSectionReader(file, 0, info.Size()), nil
}

// trusted gives the public keys. A file may have more than the key, as stagepost admin checkpoint show prints it.
func (f *checkpointFlags) trusted() ([]string, error) {
	isKey := func(s string) bool { return strings.Count(s, "+") >= 2 } // NAME+DIGEST+KEY
	keys := slices.Clone(f.keys)
	for i, name := range keys {
		text, err := os.ReadFile(name)
		if err != nil {
			if isKey(name) {
				continue
			}
			return nil, cli.Usagef("--key is neither a public key nor the file of one: %w", err)
		}
		fields := strings.Fields(string(text))
		n := slices.IndexFunc(fields, isKey)
		if n < 0 {
			return nil, cli.Usagef("the file %s has no public key: stagepost admin checkpoint show prints it", name)
		}
		keys[i] = fields[n]
	}
	return keys, nil
}

// verifyCheckpoints compares the histories of a server or of a data directory with checkpoints.
func (c *commands) verifyCheckpoints(cmd *cobra.Command, f *checkpointFlags) (err error) {
	ctx, cancel := c.Patient(cmd)
	defer cancel()
	if f.file == "" {
		dir, err := c.filesDir()
		if err != nil {
			return err
		}
		f.file = filepath.Join(dir, host.CheckpointsName)
	}
	file, checkpoints, err := f.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	keys, err := f.trusted()
	if err != nil {
		return err
	}
	r, err := compared(ctx, checkpoints, keys, func(w io.Writer) error { return c.writeExport(ctx, w) })
	if err != nil {
		return err
	}
	return c.printExport(&r)
}

// writeExport writes an export of the histories of a server or of a data directory.
func (c *commands) writeExport(ctx context.Context, w io.Writer) error {
	_, err := withStore(ctx, c,
		func(ctx context.Context, api *client.Client) (bool, error) { return true, api.Export(ctx, w) },
		func(ctx context.Context, d *host.Maintenance) (bool, error) { return true, d.Export(ctx, w) })
	return err
}

// checkpointRows are those of a report about checkpoints.
func checkpointRows(r *history.Report) [][2]string {
	if r.Checkpoints == 0 {
		return nil
	}
	return [][2]string{{"checkpoints", strconv.FormatInt(r.Checkpoints, 10)},
		{"restored backups", strconv.Itoa(len(r.Restored))}}
}
