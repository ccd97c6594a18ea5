package archive

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/workdir"
	"github.com/stagepost/stagepost/lifecycle"
)

// backed is a source that makes backups: each is asked for its state twice before it is done.
type backed struct {
	*fake
	mu      sync.Mutex
	started int
	asked   int
	fetched int
}

func (b *backed) CanBackup(context.Context) (string, error) { return "", nil }

func (b *backed) PrepareBackup(_ context.Context, course, activity string) (*source.BackupRequest, error) {
	return &source.BackupRequest{Course: course, Activity: activity, ID: strings.Repeat("a", 32),
		Warnings: []string{"the Moodle leaves out badges"}}, nil
}

func (b *backed) StartBackup(_ context.Context, r *source.BackupRequest, save func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.started++; b.started > 1 {
		return errors.New("it was started before")
	}
	return save()
}

func (b *backed) BackupState(context.Context, *source.BackupRequest) (source.BackupState, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asked++; b.asked < 3 {
		return source.BackupRunning, nil
	}
	return source.BackupDone, nil
}

func (b *backed) FetchBackup(
	ctx context.Context, _ *source.BackupRequest, _ *os.Root, out source.Out,
) (*source.Backup, error) {
	b.mu.Lock()
	b.fetched++
	b.mu.Unlock()
	err := out.Put(ctx, "backups/course.mbz", &source.Origin{}, func(w io.Writer) error {
		_, err := io.WriteString(w, "the backup")
		return err
	})
	return &source.Backup{Name: "backups/course.mbz", Warnings: []string{"it has no question bank"}}, err
}

// DeleteBackup deletes nothing: TestDeleteBackups has the deletions.
func (b *backed) DeleteBackup(context.Context, *source.BackupRequest, *os.Root) error { return nil }

var _ source.Backups = (*backed)(nil)

// TestLost: what the working directory lacks when the package is made is fetched again, although its tasks are
// Finished: after a power cut, or with a directory of another time, a part of an archive must not pass as a whole one
// (B5). A backup is not started again. The control loses nothing.
func TestLost(t *testing.T) {
	for name, lost := range map[string][]string{
		"nothing": nil, "everything": {".*", "*"},
		"a course": {workdir.ContentName + "/course", "*/course.jsonl"},
		"activity": {workdir.ContentName + "/activities/quiz-1", "*/activities_quiz-1.jsonl"},
		"backup":   {workdir.ContentName + "/backups", "*/backups.jsonl"},
		"damage":   {workdir.ContentName + "/backups/backups/course.mbz"},
	} {
		t.Run(name, func(t *testing.T) {
			src := &backed{fake: newFake(2, 2)}
			src.self = src
			var base string
			src.onStep = map[lifecycle.State]func(){PostProcessing: sync.OnceFunc(func() { lose(t, base, lost) })}
			bubble(t, src.fake, nil, func(h *harness) {
				base = h.workDir()
				yes, no := true, false
				j := h.end(h.submit(Request{Settings: Settings{CourseBackup: &yes, Sign: &no}}).ID)
				events := h.events(j.ID)
				if j.State != Completed || strings.Contains(events, "retry") == (lost == nil) {
					t.Fatalf("got %s: %s (%s)", j.State, j.Message, events)
				}
				files := h.packed()
				for _, want := range []string{
					"course/course.json", "quiz-1/item-0.txt", "quiz-1/item-1.txt", "quiz-2/item-0.txt",
					"backups/course.mbz",
				} {
					if _, ok := files["data/"+want]; !ok {
						t.Errorf("%s is not in the package", want)
					}
				}
				about := files["data/metadata/job.json"] + files["README.txt"]
				for _, want := range []string{"labels have no content", "badges", "no question bank"} {
					if strings.Count(about, want) != 2 {
						t.Errorf("the package does not state %q in job.json and README.txt", want)
					}
				}
				if src.started != 1 || (name == "backup" || name == "damage") != (src.fetched == 2) && lost != nil &&
					name != "everything" {
					t.Errorf("%d backups were started, %d fetched", src.started, src.fetched)
				}
			})
		})
	}
}

// lose removes files below the working directory of the only job, without its lock.
func lose(t *testing.T, base string, patterns []string) {
	for _, pattern := range patterns {
		all, err := filepath.Glob(filepath.Join(base, "*", pattern))
		if err != nil {
			t.Error(err)
		}
		for _, name := range all {
			if strings.Contains(filepath.Base(name), "lock") {
				continue
			}
			if err := os.RemoveAll(name); err != nil {
				t.Error(err)
			}
		}
	}
}

// packed reads the package that the job of a test has stored, by the names of its files below the package.
func (h *harness) packed() map[string]string {
	h.t.Helper()
	all, err := filepath.Glob(filepath.Join(h.options.Dir, "near", "*", "*.tar.gz"))
	if err != nil || len(all) != 1 {
		h.t.Fatalf("got %v, %v", all, err)
	}
	f, err := os.Open(all[0])
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		h.t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(zipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			h.t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			h.t.Fatal(err)
		}
		_, name, _ := strings.Cut(header.Name, "/")
		files[name] = string(text)
	}
}
