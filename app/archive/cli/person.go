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
		Long: `Fetches the packages that have files of a person, compares each with its SHA-256, and takes out the files that are of
this person by the list in the package (metadata/files.csv). DIR must not exist. It gets person.json, the files below
the ids of their jobs, and manifest-sha256.txt, which sha256sum -c checks. Files that are of several people are not in
it: person.json names the activities in which the person took part. The packages are removed again.`,
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
			x := &personExport{root: root, person: p.ID}
			err = errors.Join(c.exportPerson(ctx, api, x, &d), root.Close())
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(map[string]any{"dir": args[2], "files": x.files, "archives": len(d.Archives)})
			}
			return c.Out.Sheet([][2]string{
				{"exported", fmt.Sprintf("%d files of %d archives into %s", x.files, len(d.Archives), args[2])},
				{"next step", "cd " + args[2] + " && sha256sum -c manifest-sha256.txt"},
			})
		}),
	}
	cli.Audited(cmd, &p.Note, &p.Actor)
	return cmd
}

// exportPerson writes the export of a person.
func (c *commands) exportPerson(
	ctx context.Context, api *client.Client, x *personExport, d *client.ArchivePersonData,
) error {
	text, err := json.MarshalIndent(d, "", "  ")
	if err == nil {
		err = x.write("person.json", "", strings.NewReader(string(text)+"\n"))
	}
	if err != nil {
		return err
	}
	for _, a := range d.Archives {
		if !hasFiles(d, a.Job) {
			continue
		}
		if err := c.exportArchive(ctx, api, x, a.Job); err != nil {
			return fmt.Errorf("archive %s: %w", a.Job, err)
		}
	}
	x.files-- // person.json is in the manifest, too
	return x.root.WriteFile("manifest-sha256.txt", []byte(x.manifest.String()), 0o600)
}

func hasFiles(d *client.ArchivePersonData, id job.ID) bool {
	for _, content := range d.Contents {
		if content.Job == id && content.Path != "" {
			return true
		}
	}
	return false
}

// exportArchive fetches the packages of an archive one after another and takes the files out.
func (c *commands) exportArchive(ctx context.Context, api *client.Client, x *personExport, id job.ID) error {
	all, err := artifacts(ctx, api, id)
	if err != nil {
		return err
	}
	found := false
	for _, a := range all {
		if a.Role != string(catalog.Payload) || containerOf(a.Path) == "" {
			continue
		}
		found = true
		if err := c.fetchOne(ctx, api, id, a, x.root); err != nil {
			return err
		}
		name := filepath.FromSlash(a.Path)
		if err := errors.Join(x.takeOut(name, string(id)), x.root.Remove(name)); err != nil {
			return fmt.Errorf("%s: %w", a.Path, err)
		}
	}
	if !found {
		return job.Errorf(job.Refused, "export", id, "its package is not one file: fetch it with "+
			"stagepost archive retrieve %s, and see metadata/files.csv in it", id)
	}
	return nil
}

// personExport is the directory of an export.
type personExport struct {
	root     *os.Root
	person   string // id in the source
	files    int
	manifest strings.Builder
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

// takeOut copies the files of the person out of a package into a folder. A file that the list has and the package does
// not is an error.
func (x *personExport) takeOut(container, folder string) error {
	wanted := map[string]string{} // SHA-256 by path
	err := x.walk(container, func(name string, r io.Reader) (err error) {
		if _, inner, _ := strings.Cut(name, "/"); "/"+inner == listName {
			wanted, err = personFiles(r, x.person)
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
		base := strings.TrimSuffix(path.Base(filepath.ToSlash(container)), containerOf(container))
		return x.write(path.Join(folder, base, inner), sum, r)
	})
	if err == nil && len(wanted) > 0 {
		err = fmt.Errorf("%d files of the person are in its list and not in it", len(wanted))
	}
	return err
}

// personFiles reads the list of a package: the files of a person, with their SHA-256.
func personFiles(r io.Reader, person string) (map[string]string, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil || len(rows) == 0 {
		return nil, fmt.Errorf("the list of its files cannot be read: %w", err)
	}
	at := map[string]int{}
	for i, name := range rows[0] {
		at[name] = i + 1
	}
	if at["path"] == 0 || at["person"] == 0 || at["sha256"] == 0 {
		return nil, errors.New("the list of its files has no path, person or sha256")
	}
	files := map[string]string{}
	for _, row := range rows[1:] {
		if row[at["person"]-1] == person {
			files[row[at["path"]-1]] = row[at["sha256"]-1]
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
	f, err := x.root.Open(name)
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
