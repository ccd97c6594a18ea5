package computecli

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/edge/safename"
	"github.com/stagepost/stagepost/edge/unpack"
	"github.com/stagepost/stagepost/job"
)

func (c *commands) results() *cobra.Command {
	var out string
	var partial, list bool
	cmd := &cobra.Command{
		Use:   "results ID [FILE...]",
		Short: "Fetch the results of a compute job",
		Long: `Fetches the results of a compute job: standard output and error, how it ended, and the files that it made. They are unpacked into a new directory named for the job, or by --out
into another one; if --out ends in .zip the ZIP is kept as it is, and - writes it to standard output. A download that breaks off is continued, and its
digest is checked. With FILEs only these are fetched, into the directory of --out or here; with one FILE and --out - it is written to standard output. An input can be
fetched in the same way.

With --partial it fetches what a job that runs has made so far; --list shows the files there are. Symbolic links are not unpacked, but the ZIP has them.`,
		Example: `  stagepost compute results cmp_01J9...
  stagepost compute results cmp_01J9... --out run7.zip
  stagepost compute results cmp_01J9... stdout --out - | tail
  stagepost compute results cmp_01J9... --partial --out sofar`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: c.completeComputeIDs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			id, err := c.JobOf(ctx, api, compute.JobKind, args[0])
			if err != nil {
				return err
			}
			files := args[1:]
			switch {
			case list && (partial || out != "" || len(files) > 0):
				return cli.Usagef("--list stands alone")
			case partial && len(files) > 0:
				return cli.Usagef("--partial gives all there is: it takes no FILE")
			case list:
				return c.listFiles(ctx, api, id)
			case len(files) > 0:
				err := c.fetchFiles(ctx, api, id, files, out)
				if err == nil && (slices.Contains(files, client.Stdout) || slices.Contains(files, client.Stderr)) {
					err = c.tellCut(ctx, api, id)
				}
				return err
			}
			return c.fetchResults(ctx, api, id, out, partial)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "",
		"a directory, a file that ends in .zip, or - for standard output; defaults to a directory with the job's id")
	f.BoolVar(&partial, "partial", false, "what a job that runs has made so far")
	f.BoolVar(&list, "list", false, "show the files there are")
	return cmd
}

// listFiles prints the files of a job. Columns: from, name, size, mode, modified.
func (c *commands) listFiles(ctx context.Context, api *client.Client, id job.ID) error {
	var all []client.ComputeFile
	for after := ""; ; {
		page, err := api.ComputeFiles(ctx, id, after)
		if err != nil {
			return err
		}
		all = append(all, page.Files...)
		if after = page.Next; after == "" {
			break
		}
	}
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(all)
	}
	rows := make([][]string, len(all))
	for i, f := range all {
		rows[i] = []string{f.From, f.Name, c.Bytes(f.Size), f.Mode, c.Out.When(f.Modified)}
	}
	if j, err := api.ComputeJob(ctx, id); err == nil { // the list is right without it
		c.sayLeft(&j)
	}
	return c.Out.Table([]string{"FROM", "NAME", "BYTES", "MODE", "AGE"}, rows)
}

// fetchResults fetches all results, or what there is so far.
func (c *commands) fetchResults(ctx context.Context, api *client.Client, id job.ID, out string, partial bool) error {
	if out == "" {
		out = string(id)
		if !filepath.IsLocal(out) || out != filepath.Base(out) {
			return cli.Usagef("%q is no id", out)
		}
	}
	if err := cli.Free(out); err != nil {
		return err
	}
	if partial {
		return c.fetchPartial(ctx, api, id, out)
	}
	j, err := api.ComputeJob(ctx, id)
	if err != nil {
		return err
	}
	switch {
	case j.Results == nil && !j.Ended:
		return job.Errorf(job.Refused, "results", id, "it has not ended (%s): --partial gives what there is", j.State)
	case j.Results == nil:
		return job.Errorf(job.NotFound, "results", id, "it has no results (%s)", j.State)
	case out == "-":
		return c.wholeResults(ctx, api, &j)
	case strings.HasSuffix(out, ".zip"):
		err = c.zipTo(ctx, api, &j, out)
	default:
		err = c.unpackResults(ctx, api, &j, out)
	}
	if err != nil || c.Out.Mode == cli.ModeJSON {
		return err
	}
	c.sayCut(&j)
	c.sayLeft(&j)
	return c.Out.Sheet([][2]string{{"fetched", out}})
}

// wholeResults writes the ZIP to standard output.
func (c *commands) wholeResults(ctx context.Context, api *client.Client, j *client.ComputeJob) error {
	d, err := api.ComputeResults(ctx, j.ID, "", 0)
	if err != nil {
		return err
	}
	defer d.Body.Close()
	if err := whole(c.Out, d, "the results"); err != nil {
		return err
	}
	c.sayCut(j)
	c.sayLeft(j)
	return nil
}

// whole copies a download, which must be as long as it was announced.
func whole(w io.Writer, d *client.ComputeDownload, what string) error {
	n, err := io.Copy(w, d.Body)
	if err == nil && d.Size >= 0 && n != d.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return job.Errorf(job.Unavailable, "results", "", "%s broke off after %d bytes: %w", what, n, err)
	}
	return nil
}

// zipTo fetches the results into a file, which appears when it is whole and its digest is right.
func (c *commands) zipTo(ctx context.Context, api *client.Client, j *client.ComputeJob, out string) error {
	part := fmt.Sprintf("%s.%.12s.part", out, j.Results.SHA256) // only the same results are taken up again
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	about := client.Access{Size: j.Results.Bytes, ETag: `"` + j.Results.SHA256 + `"`, File: "results"}
	d := &cli.Download{API: api, About: &about, Bar: quietBar(c)}
	d.Open = func(ctx context.Context, from int64) (io.ReadCloser, int64, error) {
		got, err := api.ComputeResults(ctx, j.ID, about.ETag, from)
		if err != nil {
			return nil, 0, err
		}
		return got.Body, got.Start, nil
	}
	err = d.All(ctx, f)
	d.Bar.Clear()
	if err == nil {
		err = errors.Join(sumIs(f, j.Results.SHA256), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(part, out)
}

// quietBar is a bar on standard error if that is a terminal, and none else.
func quietBar(c *commands) *cli.Bar {
	if out := c.Err; out.Terminal {
		return &cli.Bar{Out: out}
	}
	return &cli.Bar{Out: &cli.Printer{Writer: io.Discard, Mode: cli.ModePlain}}
}

// sumIs compares a file with its digest.
func sumIs(f *os.File, want string) error {
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, 1<<62)); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return job.Errorf(job.Internal, "results", "",
			"what arrived has the digest %s, not %s; remove %s and try again", got, want, f.Name())
	}
	return nil
}

// unpackResults fetches the results and unpacks them into a new directory.
func (c *commands) unpackResults(ctx context.Context, api *client.Client, j *client.ComputeJob, out string) error {
	if j.Results == nil {
		return job.Errorf(job.NotFound, "results", j.ID, "it has no results (%s)", j.State)
	}
	z := out + ".zip"
	if err := cli.Free(z); err != nil {
		return err
	}
	if err := c.zipTo(ctx, api, j, z); err != nil {
		return err
	}
	return c.unpackZip(ctx, z, out)
}

// unpackZip unpacks a ZIP of a stranger into a new directory, and removes it. What cannot be unpacked safely stays
// packed.
func (c *commands) unpackZip(ctx context.Context, name, out string) error {
	links, err := withoutLinks(name)
	if err == nil {
		err = unpackTo(ctx, name+".plain", out)
		err = errors.Join(err, os.Remove(name+".plain"))
	}
	if err != nil {
		return fmt.Errorf("the results are in %s, and are not unpacked: %w", name, err)
	}
	if links > 0 {
		c.Err.Line("stagepost: %s", linksKept(links, name))
		return nil
	}
	return os.Remove(name)
}

// linksKept reports the symbolic links that stay packed.
func linksKept(links int, name string) string {
	if links == 1 {
		return fmt.Sprintf("1 symbolic link is not unpacked; %s has it", name)
	}
	return fmt.Sprintf("%d symbolic links are not unpacked; %s has them", links, name)
}

// withoutLinks copies a ZIP as it is packed, without its symbolic links, and reports how many those are.
func withoutLinks(name string) (links int, err error) {
	from, err := zip.OpenReader(name)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return 0, err
	}
	defer from.Close()
	to, err := os.OpenFile(name+".plain", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	w := zip.NewWriter(to)
	for _, f := range from.File {
		if f.Mode()&fs.ModeSymlink != 0 {
			links++
			continue
		}
		if err = w.Copy(f); err != nil {
			break
		}
	}
	if err = errors.Join(err, w.Close(), to.Close()); err != nil {
		err = errors.Join(err, os.Remove(name+".plain"))
	}
	return links, err
}

// unpackTo unpacks a ZIP without links. It is the user's own work: how well it was packed does not matter.
func unpackTo(ctx context.Context, name, out string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(filepath.Dir(out))
	if err != nil {
		return err
	}
	defer root.Close()
	_, err = unpack.Unpack(ctx, unpack.Archive{Content: f, Size: info.Size(), Name: "results.zip"}, root,
		filepath.Base(out), unpack.Limits{Files: 2_000_000, Ratio: 1 << 40})
	return err
}

// fetchPartial fetches what a job has made so far, in one go: it may be another a moment later.
func (c *commands) fetchPartial(ctx context.Context, api *client.Client, id job.ID, out string) error {
	body, err := api.ComputePartial(ctx, id)
	if err != nil {
		return err
	}
	defer body.Close()
	d := &client.ComputeDownload{Body: body, Size: -1}
	if out == "-" {
		return whole(c.Out, d, "what there is")
	}
	name := out
	if !strings.HasSuffix(out, ".zip") {
		if name = out + ".zip"; cli.Free(name) != nil {
			return cli.Free(name)
		}
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	err = whole(f, d, "what there is")
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	if name != out {
		if err := c.unpackZip(ctx, name, out); err != nil {
			return err
		}
	}
	if c.Out.Mode == cli.ModeJSON {
		return nil
	}
	return c.Out.Sheet([][2]string{{"fetched", out}})
}

// fetchFiles fetches single files into a directory, or one of them to standard output.
func (c *commands) fetchFiles(ctx context.Context, api *client.Client, id job.ID, files []string, out string) error {
	if out == "-" {
		if len(files) != 1 {
			return cli.Usagef("standard output takes one FILE")
		}
		d, err := api.ComputeFile(ctx, id, "", files[0], "", 0)
		if err != nil {
			return err
		}
		defer d.Body.Close()
		return whole(c.Out, d, files[0])
	}
	if out == "" {
		out = "."
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, name := range files {
		if err := fetchFile(ctx, api, id, name, out); err != nil {
			return err
		}
		if c.Out.Mode == cli.ModeJSON {
			continue
		}
		if err := c.Out.Sheet([][2]string{{"fetched", filepath.Join(out, path.Base(name))}}); err != nil {
			return err
		}
	}
	return nil
}

// fetchFile fetches one file. It appears when it is whole, and never instead of another.
func fetchFile(ctx context.Context, api *client.Client, id job.ID, name, dir string) error {
	base, err := safename.Clean(path.Base(name))
	if err != nil || base != filepath.Base(base) {
		return cli.Usagef("%q is no name for a file here: write it to standard output with --out -", path.Base(name))
	}
	to := filepath.Join(dir, base)
	if err := cli.Free(to); err != nil {
		return err
	}
	d, err := api.ComputeFile(ctx, id, "", name, "", 0)
	if err != nil {
		return err
	}
	defer d.Body.Close()
	f, err := os.CreateTemp(dir, "."+base+".*")
	if err != nil {
		return err
	}
	err = whole(f, d, name)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Link(f.Name(), to) // unlike a rename it replaces nothing
	}
	return errors.Join(err, os.Remove(f.Name()))
}
