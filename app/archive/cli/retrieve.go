package archivecli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/sign"
	"github.com/stagepost/stagepost/app/archive/verify"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/edge/timestamp"
	"github.com/stagepost/stagepost/format/rfc3161"
	"github.com/stagepost/stagepost/job"
)

func (c *commands) retrieve() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "retrieve JOB [PATH...]",
		Short: "Fetch the files of an archive, from the best copies",
		Long: `Fetches the files of an archive, or those that are named, into a directory, and compares each with its SHA-256. Files that
are there already and right are kept, and a download that breaks off is continued, by this command or by the next one. A
file that only slow storage locations have is recalled; the command waits for it.

stagepost archive verify then verifies the directory without a server.`,
		Example: "  stagepost archive retrieve arc_01J9... --out ./exam\n" +
			"  stagepost archive verify ./exam --ca root.pem",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: c.CompleteIDs,
		RunE: c.ofArchive(func(ctx context.Context, api *client.Client, id job.ID, paths []string) error {
			all, err := artifacts(ctx, api, id)
			if err != nil {
				return err
			}
			if len(paths) > 0 {
				if all, err = named(all, paths, id); err != nil {
					return err
				}
			}
			if out == "" {
				out = string(id)
			}
			return c.fetchAll(ctx, api, id, all, out)
		}),
	}
	cmd.Flags().StringVar(&out, "out", "", "directory; defaults to the id of the job, here")
	return cmd
}

// named gives the files of an archive that have one of the paths.
func named(all []client.ArchiveArtifact, paths []string, id job.ID) (chosen []client.ArchiveArtifact, err error) {
	for _, path := range paths {
		i := slices.IndexFunc(all, func(a client.ArchiveArtifact) bool { return a.Path == path })
		if i < 0 {
			return nil, job.Errorf(job.NotFound, "retrieve", id,
				"the archive has no file %q; to list its files: stagepost archive show %s --files", path, id)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// fetchAll fetches files into a directory.
func (c *commands) fetchAll(
	ctx context.Context, api *client.Client, id job.ID, all []client.ArchiveArtifact, out string,
) (err error) {
	if err := os.MkdirAll(out, 0o750); err != nil {
		return err
	}
	root, err := os.OpenRoot(out) // a path of the server cannot leave it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for _, a := range all {
		if err := c.fetchOne(ctx, api, id, a, root); err != nil {
			return fmt.Errorf("%s: %w", a.Path, err)
		}
	}
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(all)
	}
	check := "stagepost archive verify " + out
	if slices.ContainsFunc(all, func(a client.ArchiveArtifact) bool { return a.Role == string(catalog.Signature) }) {
		check += " --ca FILE with the root certificate of the authority"
	}
	return c.Out.Sheet([][2]string{
		{"retrieved", fmt.Sprintf("%d files into %s", len(all), out)}, {"next step", check},
	})
}

// mostFetches bounds how often a file is fetched whose bytes are wrong. After a damaged copy, the server reads the
// others first.
const mostFetches = 4

// fetchOne fetches a file, again from another copy if its digest is wrong.
func (c *commands) fetchOne(
	ctx context.Context, api *client.Client, id job.ID, a client.ArchiveArtifact, root *os.Root,
) (err error) {
	name := filepath.FromSlash(a.Path)
	if sum, err := digestOf(root, name); err == nil && sum == a.SHA256 {
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return err
	}
	part := fmt.Sprintf("%s.%.12s.part", name, a.SHA256) // so that only the same file is continued
	for n := 1; ; n++ {
		sum, err := c.fetchPart(ctx, api, id, a, root, part)
		switch {
		case err != nil:
			return err
		case sum == a.SHA256:
			return root.Rename(part, name)
		}
		if err := root.Remove(part); err != nil {
			return err
		}
		if n == mostFetches {
			return noCopy(id, fmt.Sprintf("the SHA-256 is %s, not %s", sum, a.SHA256))
		}
		c.Note("a copy of %s is damaged: it is fetched again", a.Path)
	}
}

// noCopy is the error of a file that no copy gives.
func noCopy(id job.ID, why string) error {
	return job.Errorf(job.Unavailable, "retrieve", id, "no copy gave the right bytes: %s; the server checks the "+
		"copies within an hour, and then stagepost archive show %s counts the faults of each storage location", why, id)
}

// fetchPart fetches what a part lacks, and gives the SHA-256 of the whole.
func (c *commands) fetchPart(
	ctx context.Context, api *client.Client, id job.ID, a client.ArchiveArtifact, root *os.Root, part string,
) (sum string, err error) {
	f, err := root.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return "", err
	}
	d := &cli.Download{
		API: api, About: &client.Access{Size: a.Size, File: a.Path}, Bar: &cli.Bar{Out: c.Out},
		Open: func(ctx context.Context, from int64) (io.ReadCloser, int64, error) {
			return c.recalled(ctx, api, id, a, from)
		},
	}
	err = d.All(ctx, f)
	d.Bar.End()
	switch {
	case err == nil:
		err = f.Sync()
	case job.KindOf(err) == job.Unavailable && client.ProblemOf(err) == nil: // it was broken off at the same byte
		err = noCopy(id, "the server broke off each answer")
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	return digestOf(root, part)
}

// recalled opens a file of an archive, and waits while a slow storage location recalls it.
func (c *commands) recalled(
	ctx context.Context, api *client.Client, id job.ID, a client.ArchiveArtifact, from int64,
) (io.ReadCloser, int64, error) {
	for noted := false; ; noted = true {
		body, start, err := api.FetchArtifact(ctx, id, a, from)
		var recall *client.RecalledError
		if !errors.As(err, &recall) {
			return body, start, err
		}
		if !noted {
			c.Note("%s is being recalled from a slow storage location", a.Path)
		}
		wait := time.NewTimer(time.Duration(max(recall.After, 1)) * time.Second)
		select {
		case <-ctx.Done():
			wait.Stop()
			return nil, 0, context.Cause(ctx)
		case <-wait.C:
		}
	}
}

func digestOf(root *os.Root, name string) (string, error) {
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// damage reports that files of an archive, or their time stamps, have faults.
type damage struct{ error }

func (d damage) Unwrap() error { return d.error }

// code gives the exit code of damage: that of the other checks of stored files.
func code(err error) (int, bool) { return cli.ExitFailed, errors.As(err, new(damage)) }

func (c *commands) verify() *cobra.Command {
	var roots []string
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Verify a retrieved archive, without a server",
		Long: `Verifies the files of an archive in a directory: bags (RFC 8493), lists of checksums, and time stamps (RFC 3161). It needs
no server. --ca names files with the certificates of authorities that you trust; without it time stamps are faults. The
exit code is 5 if there is a fault. docs/packages.md has the commands of public tools for the same.`,
		Example: "  stagepost archive verify ./exam --ca root.pem",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			trusted, err := trust(roots)
			if err != nil {
				return err
			}
			r, err := verify.Dir(ctx, args[0], verify.Options{Trusted: trusted, Now: time.Now()})
			if err != nil {
				return err
			}
			return c.printReport(&r)
		},
	}
	cmd.Flags().StringArrayVar(&roots, "ca", nil, "file with certificates (PEM) that are trusted; may be given again")
	return cmd
}

// trust reads certificates.
func trust(files []string) (*rfc3161.Verifier, error) {
	v, err := timestamp.Trust(files)
	if err != nil {
		err = cli.Usagef("--ca %w", err)
	}
	return v, err
}

func (c *commands) printReport(r *verify.Report) error {
	var bad error
	if r.Faults > 0 {
		bad = damage{cli.Faults{N: r.Faults}}
	}
	if c.Out.Mode == cli.ModeJSON {
		return errors.Join(c.Out.JSON(r), bad)
	}
	rows := make([][]string, len(r.Checks))
	for i, x := range r.Checks {
		result, note := "good", x.Detail
		if !x.Time.IsZero() {
			note = "stamped " + c.Out.Moment(x.Time) + " by " + note
		}
		if x.Fault != "" {
			result, note = "fault", x.Fault
		}
		rows[i] = []string{result, x.Kind, x.Path, note}
	}
	if c.Out.Mode != cli.ModeTable {
		return errors.Join(c.Out.Rows([]string{"RESULT", "CHECK", "PATH", "NOTE"}, rows, 1, nil), bad)
	}
	short := make([][]string, len(rows)) // notes are printed whole, after the table
	for i, row := range rows {
		short[i] = row[:3]
	}
	err := c.Out.Rows([]string{"RESULT", "CHECK", "PATH"}, short, 2, nil)
	for _, row := range rows {
		if row[3] != "" {
			c.Out.Line("%s of %s: %s", row[1], row[2], row[3])
		}
	}
	return errors.Join(err, bad)
}

func (c *commands) timestampVerify() *cobra.Command {
	var roots []string
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Verify the time stamps of a file, without a server",
		Long: `Verifies the time stamps (RFC 3161) of a file by the files beside it: FILE.tsr with the answer of the authority, FILE.tsq
with the request, and those of renewals (FILE.2.tsr and so on). --ca names files with the certificates of authorities that
you trust. The exit code is 5 if a time stamp is missing, wrong or expired, and 1 if a file cannot be read. openssl
verifies the same files:

  openssl ts -verify -data FILE -in FILE.tsr -CAfile root.pem`,
		Example: "  stagepost timestamp verify exam.tagmanifest-sha512.txt --ca root.pem",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(roots) == 0 {
				return cli.Usagef("name the certificate of the authority that you trust: --ca root.pem")
			}
			trusted, err := trust(roots)
			if err != nil {
				return err
			}
			dir, name := filepath.Split(args[0])
			if dir == "" {
				dir = "."
			}
			if _, err := os.Stat(args[0]); err != nil {
				return err
			}
			found, err := sign.Verify(os.DirFS(dir), name, nil, trusted, time.Now())
			return errors.Join(c.printStamps(found), damageOf(err))
		},
	}
	cmd.Flags().StringArrayVar(&roots, "ca", nil, "file with certificates (PEM) that are trusted; may be given again")
	return cmd
}

// damageOf makes an error of [sign.Verify] damage, unless a file cannot be read: then nothing is known of it.
func damageOf(err error) error {
	var read *fs.PathError
	if err == nil || errors.As(err, &read) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return damage{err}
}

// stamp is a time stamp in JSON.
type stamp struct {
	Generation int       `json:"generation"`
	Time       time.Time `json:"time"`
	Authority  string    `json:"authority"`
	Serial     string    `json:"serial"`
	Algorithm  string    `json:"algorithm"`
	Expires    time.Time `json:"expires"`
}

func (c *commands) printStamps(v sign.Verification) error {
	all := make([]stamp, len(v.Stamps))
	for i, s := range v.Stamps {
		all[i] = stamp{s.Generation, s.Time, s.Authority, s.Serial, s.Algorithm, s.Expires}
	}
	if len(all) == 0 && c.Out.Mode != cli.ModeJSON {
		return nil
	}
	return cli.List(c.Out, all, "", "NUMBER|TIME|EXPIRES|HASH|AUTHORITY", func(s *stamp) []string {
		return []string{fmt.Sprint(s.Generation), strings.TrimSpace(c.Out.Moment(s.Time)), c.Out.Moment(s.Expires),
			s.Algorithm, s.Authority}
	})
}
