package archivecli

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

func (c *commands) peopleExport() *cobra.Command {
	var p client.NamePerson
	cmd := &cobra.Command{
		Use:   "export SOURCE ID DIR",
		Short: "Write what archives have of a person into a directory",
		Long: `Fetches the packages that have data of a person, compares each with its SHA-256, and takes out the files that are
of this person by the list in the package (metadata/files.csv); of a package that is stored as single files, these
alone are fetched. DIR must not exist. It gets the files below the ids of their jobs, person.json, and
manifest-sha256.txt, which sha256sum -c checks. Files that are not of one person, such as discussions and tables of
results, are left out: person.json names those of the activities in which the person took part. The packages are
removed again.`,
		Example: "  stagepost archive people export campus 19 ./ann --note 'request 12'",
		Args:    cobra.ExactArgs(3),
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			p.Source, p.ID, p.Actor = args[0], args[1], cli.Whoami(p.Actor)
			d, err := api.PersonData(ctx, p)
			if err != nil {
				return err
			}
			if err := os.Mkdir(args[2], 0o700); err != nil {
				return err
			}
			root, err := os.OpenRoot(args[2])
			if err != nil {
				return err
			}
			x := &personExport{root: root, person: p.ID, left: []leftOut{}}
			err = errors.Join(c.exportPerson(ctx, api, x, &d), root.Close())
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(map[string]any{"dir": args[2], "files": x.files, "archives": len(d.Archives),
					"left_out": len(x.left)})
			}
			return c.Out.Sheet([][2]string{
				{"exported", fmt.Sprintf("%d files of %d archives into %s", x.files, len(d.Archives), args[2])},
				{"left out", fmt.Sprintf("%d files that are not of one person: person.json names them", len(x.left))},
				{"next step", "cd " + args[2] + " && sha256sum -c manifest-sha256.txt"},
			})
		}),
	}
	cli.Audited(cmd, &p.Note, &p.Actor)
	return cmd
}

// packagesName is the directory of an export that has packages while they are read.
const packagesName = "packages"

// exportPerson writes the export of a person.
func (c *commands) exportPerson(
	ctx context.Context, api *client.Client, x *personExport, d *client.ArchivePersonData,
) (err error) {
	if err := x.root.Mkdir(packagesName, 0o700); err != nil {
		return err
	}
	if x.packages, err = x.root.OpenRoot(packagesName); err != nil {
		return err
	}
	for _, a := range d.Archives {
		x.job, x.took = a.Job, map[string]bool{}
		for _, one := range d.Contents {
			x.took[one.Activity] = x.took[one.Activity] || one.Job == a.Job
		}
		if err := c.exportArchive(ctx, api, x); err != nil {
			return errors.Join(fmt.Errorf("archive %s: %w", a.Job, err), x.packages.Close())
		}
	}
	if err := errors.Join(x.packages.Close(), x.root.RemoveAll(packagesName)); err != nil {
		return err
	}
	text, err := json.MarshalIndent(struct {
		*client.ArchivePersonData
		LeftOut []leftOut `json:"left_out"`
	}{d, x.left}, "", "  ")
	if err != nil {
		return err
	}
	if err := x.write("person.json", "", strings.NewReader(string(text)+"\n")); err != nil {
		return err
	}
	x.files-- // person.json is in the manifest, too
	return x.root.WriteFile("manifest-sha256.txt", []byte(x.manifest.String()), 0o600)
}

// exportArchive fetches the packages of an archive one after another and takes the files out. Of packages that are
// stored as single files it fetches the lists, and then the files of the person.
func (c *commands) exportArchive(ctx context.Context, api *client.Client, x *personExport) error {
	all, err := artifacts(ctx, api, x.job)
	if err != nil {
		return err
	}
	found := false
	for _, a := range all {
		name := filepath.FromSlash(a.Path)
		base, list := strings.CutSuffix(a.Path, listName)
		list = list && !strings.Contains(base, "/") // else a person uploaded a file of this name
		packed := containerOf(a.Path) != "" && !strings.Contains(a.Path, dataDir)
		if a.Role != string(catalog.Payload) || !list && !packed {
			continue
		}
		found = true
		if err := c.fetchOne(ctx, api, x.job, a, x.packages); err != nil {
			return err
		}
		if list {
			err = c.exportFiles(ctx, api, x, base, all)
		} else {
			err = x.takeOut(name)
		}
		if err := errors.Join(err, x.packages.Remove(name)); err != nil {
			return fmt.Errorf("%s: %w", a.Path, err)
		}
	}
	if !found {
		return job.Errorf(job.Refused, "export", x.job, "it has no package with a list of files: fetch it with "+
			"stagepost archive retrieve %s", x.job)
	}
	return nil
}

// exportFiles fetches the files of the person of a package that is stored as single files below a directory. Its list
// is fetched.
func (c *commands) exportFiles(
	ctx context.Context, api *client.Client, x *personExport, base string, all []client.ArchiveArtifact,
) error {
	list, err := x.packages.Open(filepath.FromSlash(base + listName))
	if err != nil {
		return err
	}
	wanted, err := x.read(base, list)
	if err = errors.Join(err, list.Close()); err != nil {
		return err
	}
	for _, a := range all {
		inner, ok := strings.CutPrefix(a.Path, base+dataDir)
		sum, mine := wanted[inner]
		if !ok || !mine {
			continue
		}
		delete(wanted, inner)
		if err := c.fetchOne(ctx, api, x.job, a, x.packages); err != nil {
			return err
		}
		f, err := x.packages.Open(filepath.FromSlash(a.Path))
		if err != nil {
			return err
		}
		err = x.write(path.Join(string(x.job), base, inner), sum, f)
		if err := errors.Join(err, f.Close(), x.packages.Remove(filepath.FromSlash(a.Path))); err != nil {
			return err
		}
	}
	return missing(wanted)
}

// leftOut is a file that an export does not have.
type leftOut struct {
	Job      job.ID `json:"job"`
	Package  string `json:"package"`
	Path     string `json:"path"` // in the package, below data/
	Activity string `json:"activity,omitempty"`
	Bytes    int64  `json:"bytes"`
	SHA256   string `json:"sha256"`
	Reason   string `json:"reason"`
}

// notOfOne is the reason of a file that is left out.
const notOfOne = "it is not of one person, and can have data of others: a person has to decide what may be handed out"

// personExport is the directory of an export.
type personExport struct {
	root     *os.Root
	packages *os.Root // where packages are while they are read
	person   string   // id in the source
	files    int
	left     []leftOut
	manifest strings.Builder

	job  job.ID          // of the archive that is read
	took map[string]bool // activities of the archive in which the person took part; an empty id: the course
}

// write writes a file and its line in the manifest. An expected SHA-256 is compared; empty: none is.
func (x *personExport) write(name, expected string, from io.Reader) (err error) {
	if err := x.root.MkdirAll(filepath.Dir(filepath.FromSlash(name)), 0o700); err != nil {
		return err
	}
	f, err := x.root.OpenFile(filepath.FromSlash(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, sum), from)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	got := hex.EncodeToString(sum.Sum(nil))
	if expected != "" && got != expected {
		return fmt.Errorf("%s: its SHA-256 is %s, and the list of the package has %s", name, got, expected)
	}
	x.files++
	fmt.Fprintf(&x.manifest, "%s  %s\n", got, name)
	return nil
}

// listName is the list of the files of a package, and dataDir the folder to which its paths are relative.
const (
	listName = "/data/metadata/files.csv"
	dataDir  = "/data/"
)

// takeOut copies the files of the person out of a package. A file that the list has and the package does not is an
// error.
func (x *personExport) takeOut(container string) error {
	base := strings.TrimSuffix(path.Base(filepath.ToSlash(container)), containerOf(container))
	wanted := map[string]string{} // SHA-256 by path
	err := x.walk(container, func(name string, r io.Reader) (err error) {
		if _, inner, _ := strings.Cut(name, "/"); "/"+inner == listName {
			wanted, err = x.read(base, r)
		}
		return err
	})
	if err != nil || len(wanted) == 0 {
		return err
	}
	err = x.walk(container, func(name string, r io.Reader) error {
		_, inner, _ := strings.Cut(name, "/")
		inner, ok := strings.CutPrefix("/"+inner, dataDir)
		sum, mine := wanted[inner]
		if !ok || !mine {
			return nil
		}
		delete(wanted, inner)
		return x.write(path.Join(string(x.job), base, inner), sum, r)
	})
	return errors.Join(err, missing(wanted))
}

// missing is the error of files that a list has and its package does not.
func missing(files map[string]string) error {
	if len(files) == 0 {
		return nil
	}
	return fmt.Errorf("%d files of the person are in its list and not in it", len(files))
}

// read reads the list of a package: it gives the SHA-256 of the files of the person by their paths, and notes those of
// the activities of the person that are not of one person.
func (x *personExport) read(base string, r io.Reader) (map[string]string, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil || len(rows) == 0 {
		return nil, fmt.Errorf("the list of its files cannot be read: %w", err)
	}
	at := map[string]int{}
	for i, name := range rows[0] {
		at[name] = i + 1
	}
	for _, name := range []string{"path", "activity", "person", "size", "sha256"} {
		if at[name] == 0 {
			return nil, fmt.Errorf("the list of its files has no column %s", name)
		}
	}
	files := map[string]string{}
	for _, row := range rows[1:] {
		get := func(name string) string { return row[at[name]-1] }
		switch person := get("person"); {
		case person == x.person:
			files[get("path")] = get("sha256")
		case person == "" && x.took[get("activity")]:
			size, err := strconv.ParseInt(get("size"), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("the list of its files: %w", err)
			}
			x.left = append(x.left, leftOut{
				x.job, base, get("path"), get("activity"), size, get("sha256"), notOfOne,
			})
		}
	}
	return files, nil
}

// containerOf gives the ending of a package that is one file; empty: another file.
func containerOf(name string) string {
	for _, ending := range []string{".tar.gz", ".tar", ".zip"} {
		if strings.HasSuffix(name, ending) {
			return ending
		}
	}
	return ""
}

// walk calls each with the files of a package.
func (x *personExport) walk(name string, each func(name string, r io.Reader) error) (err error) {
	f, err := x.packages.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if containerOf(name) == ".zip" {
		return walkZip(f, each)
	}
	var from io.Reader = f
	if containerOf(name) == ".tar.gz" {
		if from, err = gzip.NewReader(f); err != nil {
			return err
		}
	}
	files := tar.NewReader(from)
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if err := each(h.Name, files); err != nil {
			return err
		}
	}
}

func walkZip(f *os.File, each func(name string, r io.Reader) error) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	z, err := zip.NewReader(f, info.Size())
	if err != nil {
		return err
	}
	for _, one := range z.File {
		r, err := one.Open()
		if err != nil {
			return err
		}
		if err := errors.Join(each(one.Name, r), r.Close()); err != nil {
			return err
		}
	}
	return nil
}
