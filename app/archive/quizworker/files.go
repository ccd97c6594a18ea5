package quizworker

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/cases"

	"github.com/stagepost/stagepost/app/archive/packaging"
	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/internal/durable"
)

// work is the working files of a job: below files/ what the archive contains, in done/ a file for each complete attempt
// with the name of its folder. An attempt is made in stage/ and renamed when it is complete and recorded: what an
// interrupted one leaves is never in the archive, whatever folder the Moodle names the next time.
type work struct {
	*run
	folders map[string]int64 // in folded case, and whose they are
	done    map[int64]bool
}

// openWork reads what earlier attempts completed.
func (t *run) openWork(context.Context) (*work, error) {
	w := &work{run: t, folders: map[string]int64{}, done: map[int64]bool{}}
	entries, err := fs.ReadDir(t.root.FS(), path.Join(workName, doneName))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		id, err := strconv.ParseInt(e.Name(), 10, 64)
		if err != nil {
			continue
		}
		text, err := t.root.ReadFile(path.Join(workName, doneName, e.Name()))
		if err != nil {
			return nil, err
		}
		if _, err := t.root.Stat(inside(path.Join("attempts", string(text)))); err != nil {
			continue // it was recorded, but not renamed
		}
		w.folders[folded(string(text))], w.done[id] = id, true
	}
	return w, nil
}

func folded(name string) string { return cases.Fold().String(name) }

func (w *work) complete(id int64) bool { return w.done[id] }

// inside gives the name of a file of the archive in the folder of the job.
func inside(name string) string { return path.Join(workName, filesName, name) }

// has reports whether a file with its digest is complete: the digest is written last.
func (w *work) has(name string) bool {
	_, err := w.root.Stat(inside(name + ".sha256"))
	return err == nil
}

// put writes a file, and then its digest in the form that sha256sum -c reads.
func (w *work) put(name string, fill func(*os.File) error) error {
	return w.putAt(inside(name), fill)
}

func (w *work) putAt(target string, fill func(*os.File) error) error {
	if err := w.root.MkdirAll(path.Dir(target), 0o700); err != nil {
		return err
	}
	if err := (durable.File{Root: w.root, Name: target, Mode: 0o600}).Write(fill); err != nil {
		return err
	}
	f, err := w.root.Open(target)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	line := hex.EncodeToString(sum.Sum(nil)) + "  " + path.Base(target) + "\n"
	return durable.ReplaceIn(w.root, target+".sha256", []byte(line))
}

// attempt archives an attempt.
func (w *work) attempt(ctx context.Context, id int64) error {
	r, err := w.m.report(ctx, id)
	if err != nil {
		return err
	}
	if err := pdf.CheckDocument(strings.NewReader(r.HTML)); err != nil {
		return engine.Fail(causeReport, fmt.Errorf("the report of attempt %d: %w", id, err))
	}
	stage := path.Join(workName, stageName)
	if err := w.root.RemoveAll(stage); err != nil { // of an interrupted attempt
		return err
	}
	names := unique{}
	base := nameOf(r.File, id)
	if w.spec.HTML {
		if err := w.putAt(path.Join(stage, names.take(base+".html")), durable.Text([]byte(r.HTML))); err != nil {
			return err
		}
	}
	name := path.Join(stage, names.take(base+".pdf"))
	if err := w.putAt(name, func(f *os.File) error { return w.print(ctx, base, r.HTML, f) }); err != nil {
		return err
	}
	if err := w.attachments(ctx, stage, r); err != nil {
		return err
	}
	return w.finish(id, w.folder(r.Folder, id), stage)
}

// finish records an attempt and moves its files to their folder.
func (w *work) finish(id int64, folder, stage string) error {
	if err := durable.ReplaceIn(w.root, path.Join(workName, doneName, fmt.Sprint(id)), []byte(folder)); err != nil {
		return err
	}
	target := inside(path.Join("attempts", folder))
	if err := w.root.MkdirAll(path.Dir(target), 0o700); err != nil {
		return err
	}
	if err := w.root.Rename(stage, target); err != nil {
		return err
	}
	w.done[id] = true
	return durable.SyncIn(w.root, path.Dir(target))
}

// print makes the PDF file of a report.
func (w *work) print(ctx context.Context, title, report string, out io.Writer) error {
	page := w.spec.Page
	page.Title = title
	return w.app.options.Printer.Print(ctx, w.Job().ID, page, strings.NewReader(report), out)
}

// attachments keeps the files of an attempt.
func (w *work) attachments(ctx context.Context, folder string, r *report) error {
	if !w.spec.Attached {
		return nil
	}
	slots := map[int]unique{}
	for _, one := range r.Attachments {
		if slots[one.Slot] == nil {
			slots[one.Slot] = unique{}
		}
		name := slots[one.Slot].take(source.SafeName(one.File))
		name = path.Join(folder, "attachments", strconv.Itoa(one.Slot), name)
		err := w.putAt(name, func(f *os.File) error {
			return w.m.download(ctx, one.URL, one.SHA1, maxAttachment, f)
		})
		if err != nil {
			return fmt.Errorf("attempt %d: %s: %w", r.Attempt, one.File, err)
		}
	}
	return nil
}

// folder gives an attempt a folder of its own: one that another attempt has, or is in, gets the number of the attempt.
func (w *work) folder(asked string, id int64) string {
	var parts []string
	for part := range strings.SplitSeq(strings.Trim(asked, "/"), "/") {
		if part != "" && part != "." && part != ".." {
			parts = append(parts, source.SafeName(part))
		}
	}
	name := cmp.Or(path.Join(parts...), fmt.Sprintf("attempt-%d", id))
	for w.taken(name, id) {
		name += fmt.Sprintf("_%d", id)
	}
	w.folders[folded(name)] = id
	return name
}

// taken reports whether a folder is that of another attempt, inside it, or around it.
func (w *work) taken(name string, id int64) bool {
	name = folded(name)
	for other, owner := range w.folders {
		if owner != id && (other == name || strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/")) {
			return true
		}
	}
	return false
}

// nameOf is the name of the files of an attempt without extension.
func nameOf(asked string, id int64) string {
	asked = strings.TrimSuffix(asked, ".pdf")
	if asked == "" || asked == "null" {
		return fmt.Sprintf("attempt-%d", id)
	}
	return source.SafeName(asked)
}

// unique has the names of one folder in folded case.
type unique map[string]bool

// take gives a name that is free, and so is that of its digest: NAME, or NAME-2 and so on.
func (u unique) take(name string) string {
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	for n := 2; u[folded(name)] || u[folded(name+".sha256")]; n++ {
		name = fmt.Sprintf("%s-%d%s", stem, n, ext)
	}
	u[folded(name)], u[folded(name+".sha256")] = true, true
	return name
}

// table writes attempts_metadata.csv. The Moodle is asked for 100 attempts at a time; each must be there.
func (w *work) table(ctx context.Context) error {
	if w.has(metadataName) {
		return nil
	}
	rows := [][]string{{"attemptid", "userid", "username", "firstname", "lastname", "idnumber", "timestart",
		"timefinish", "attempt", "state", "path"}}
	folders := map[int64]string{}
	for id := range w.done {
		text, err := w.root.ReadFile(path.Join(workName, doneName, fmt.Sprint(id)))
		if err != nil {
			return err
		}
		folders[id] = path.Join("attempts", string(text))
	}
	for batch := range slices.Chunk(w.spec.Attempts, metadataBatch) {
		all, err := w.m.metadata(ctx, batch)
		if err != nil {
			return err
		}
		byID := map[int64]metadata{}
		for _, one := range all {
			byID[one.Attempt] = one
		}
		for _, id := range batch {
			one, ok := byID[id]
			if !ok {
				return wrong("get_attempts_metadata", "", false, "the Moodle sent no metadata of attempt %d", id)
			}
			rows = append(rows, []string{fmt.Sprint(id), fmt.Sprint(one.User), one.Username, one.First, one.Last,
				one.Number, one.Start.String(), one.Finish.String(), one.Try.String(), one.Condition, folders[id]})
		}
	}
	var text bytes.Buffer
	if err := csv.NewWriter(&text).WriteAll(rows); err != nil {
		return err
	}
	return w.put(metadataName, durable.Text(text.Bytes()))
}

// zip makes the ZIP file: names in order, one time for all files, stored as they are. The same files give the same
// bytes.
func (t *run) zip(ctx context.Context, target string) (sum string, size int64, err error) {
	root, err := t.root.OpenRoot(path.Join(workName, filesName))
	if err != nil {
		return "", 0, err
	}
	defer root.Close()
	var names []string
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return "", 0, err
	}
	slices.Sort(names)
	digest := sha256.New()
	err = durable.File{Root: t.root, Name: target, Mode: 0o600}.Write(func(f *os.File) error {
		counted := &counter{w: io.MultiWriter(f, digest), most: maxFile}
		z := zip.NewWriter(counted)
		for _, name := range names {
			if err := errors.Join(context.Cause(ctx), member(z, root, name)); err != nil {
				return err
			}
		}
		err := z.Close()
		size = counted.n
		return err
	})
	return hex.EncodeToString(digest.Sum(nil)), size, err
}

// member adds a file: it is read twice, as the checksum comes before the content.
func member(z *zip.Writer, root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	crc := crc32.NewIEEE()
	size, err := io.Copy(crc, f)
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	w, err := z.CreateRaw(packaging.ZipHeader(name, size, crc.Sum32()))
	if err != nil {
		return err
	}
	_, err = io.CopyN(w, f, size)
	return err
}

// counter refuses more than so many bytes.
type counter struct {
	w       io.Writer
	n, most int64
}

func (c *counter) Write(b []byte) (int, error) {
	if c.n += int64(len(b)); c.n > c.most {
		return 0, wrong("zip", "", false, "the archive has more than %d bytes: archive fewer attempts at once", c.most)
	}
	return c.w.Write(b)
}
