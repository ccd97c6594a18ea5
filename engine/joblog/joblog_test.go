package joblog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine/joblog"
	"github.com/stagepost/stagepost/job"
)

func open(t *testing.T, dir string, o joblog.Options) *joblog.Logs {
	t.Helper()
	l, err := joblog.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func read(t *testing.T, l *joblog.Logs, id job.ID, offset int64, n int) api.Log {
	t.Helper()
	c, err := l.Read(id, offset, n)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const id job.ID = "let_01J9Z3ABCDEFGHJKMNPQRSTVWX"

func TestLinesOutliveTheWorker(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, joblog.Options{})
	l.Logger(id, 1, "Sorting").Info("began", "file", "a.txt")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, dir, joblog.Options{})
	l.Logger(id, 2, "Sorting").Error("broke")
	c := read(t, l, id, 0, 0)
	if len(c.Lines) != 2 || c.More {
		t.Fatalf("got %+v", c)
	}
	if got := c.Lines[0]; got.Msg != "began" || got.Epoch != 1 || got.State != "Sorting" ||
		string(got.Attrs) != `{"file":"a.txt"}` || got.Level != "INFO" {
		t.Errorf("got %+v", got)
	}
	if got := c.Lines[1]; got.Msg != "broke" || got.Epoch != 2 || got.Level != "ERROR" {
		t.Errorf("got %+v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "WX", string(id)+".log")); err != nil {
		t.Error(err)
	}
}

func TestTextCannotForgeALine(t *testing.T) {
	l := open(t, t.TempDir(), joblog.Options{})
	hostile := "ok\n{\"level\":\"INFO\",\"msg\":\"all is well\"}\r\x1b[2J\u2028"
	l.Logger(id, 1, "Sorting").Info(hostile, "a\nb", hostile)
	c := read(t, l, id, 0, 0)
	if len(c.Lines) != 1 || c.Lines[0].Msg != hostile {
		t.Errorf("got %+v", c.Lines)
	}
}

func TestSizeIsBounded(t *testing.T) {
	dir := t.TempDir()
	o := joblog.Options{MaxBytes: 2000, MaxLine: 500}
	l := open(t, dir, o)
	log := l.Logger(id, 1, "Sorting")
	log.Info(strings.Repeat("x", 600))
	for i := range 100 {
		log.Info("line", "i", i)
	}
	_ = l.Close()
	l = open(t, dir, o)
	l.Logger(id, 2, "Sorting").Info("after the end")
	c := read(t, l, id, 0, 0)
	last := c.Lines[len(c.Lines)-1]
	if c.Next > 2200 || !strings.Contains(last.Msg, "full") || len(c.Lines) < 10 {
		t.Errorf("got %d bytes in %d lines, the last %q", c.Next, len(c.Lines), last.Msg)
	}
	if !strings.Contains(c.Lines[0].Msg, "left out") {
		t.Errorf("a line too long is named: got %q", c.Lines[0].Msg)
	}
}

func TestReadGoesOn(t *testing.T) {
	l := open(t, t.TempDir(), joblog.Options{})
	log := l.Logger(id, 1, "Sorting")
	for i := range 25 {
		log.Info(fmt.Sprint(i))
	}
	var got []string
	var offset int64
	for more := true; more; {
		c := read(t, l, id, offset, 10)
		for _, line := range c.Lines {
			got = append(got, line.Msg)
		}
		offset, more = c.Next, c.More
	}
	if len(got) != 25 || got[24] != "24" {
		t.Errorf("got %v", got)
	}
	log.Info("later")
	if c := read(t, l, id, offset, 10); len(c.Lines) != 1 || c.Lines[0].Msg != "later" {
		t.Errorf("got %+v", c)
	}
}

// TestTailIsTheEnd: the last whole lines, of a log of any length; Next continues behind them.
func TestTailIsTheEnd(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, joblog.Options{MaxBytes: 4 << 20})
	tail := func(n int) api.Log {
		t.Helper()
		c, err := l.Tail(id, n)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := tail(3); len(c.Lines) != 0 || c.Next != 0 {
		t.Errorf("no log: got %+v", c)
	}
	log := l.Logger(id, 1, "Sorting")
	log.Info("first")
	if c := tail(3); len(c.Lines) != 1 || c.Lines[0].Msg != "first" {
		t.Errorf("one line: got %+v", c)
	}
	for i := range 500 {
		log.Info(fmt.Sprint(i), "long", strings.Repeat("x", 4000)) // 2 MB: the beginning is not read
	}
	c := tail(3)
	if len(c.Lines) != 3 || c.Lines[0].Msg != "497" || c.Lines[2].Msg != "499" {
		t.Errorf("got %d lines: %.300v", len(c.Lines), c.Lines)
	}
	if all := tail(10_000); len(all.Lines) > 300 || all.Lines[len(all.Lines)-1].Msg != "499" ||
		all.Lines[0].Level != "INFO" {
		t.Errorf("got %d lines, the first %.300v", len(all.Lines), all.Lines[0])
	}
	if n, err := l.Size(id); err != nil || n != c.Next {
		t.Errorf("%d bytes, %v, and the last line ends at %d", n, err, c.Next)
	}
	log.Info("later")
	if rest := read(t, l, id, c.Next, 0); len(rest.Lines) != 1 || rest.Lines[0].Msg != "later" {
		t.Errorf("after the end: got %+v", rest)
	}
	_ = l.Close()
	f, err := os.OpenFile(filepath.Join(dir, "WX", string(id)+".log"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"time":"2026-`); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	if c := tail(1); len(c.Lines) != 1 || c.Lines[0].Msg != "later" {
		t.Errorf("an unfinished line is left for later: got %+v", c)
	}
}

func TestTornLineIsReportedAndEnded(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, joblog.Options{})
	l.Logger(id, 1, "Sorting").Info("whole")
	_ = l.Close()
	f, err := os.OpenFile(filepath.Join(dir, "WX", string(id)+".log"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"time":"2026-`); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	l = open(t, dir, joblog.Options{})
	if c := read(t, l, id, 0, 0); len(c.Lines) != 1 {
		t.Errorf("an unfinished line is left for later: got %+v", c)
	}
	l.Logger(id, 2, "Sorting").Info("next")
	c := read(t, l, id, 0, 0)
	if len(c.Lines) != 3 || !strings.Contains(c.Lines[1].Msg, "cut off") || c.Lines[2].Msg != "next" {
		t.Errorf("got %+v", c.Lines)
	}
}

func TestIDsStayInside(t *testing.T) {
	l := open(t, t.TempDir(), joblog.Options{})
	for _, bad := range []job.ID{"", "x", "../../../etc/passwd", "a/b_cc", "a\x00bcd", `a\bcd`, "..", "....",
		job.ID(strings.Repeat("a", 200))} {
		if _, err := l.Read(bad, 0, 0); job.KindOf(err) != job.Invalid {
			t.Errorf("%q: got %v", bad, err)
		}
		if _, err := l.Tail(bad, 1); job.KindOf(err) != job.Invalid {
			t.Errorf("%q: got %v", bad, err)
		}
		if _, err := l.Size(bad); job.KindOf(err) != job.Invalid {
			t.Errorf("%q: got %v", bad, err)
		}
		if err := l.Remove(bad); job.KindOf(err) != job.Invalid {
			t.Errorf("%q: got %v", bad, err)
		}
	}
	if c := read(t, l, "let_never", 0, 0); len(c.Lines) != 0 {
		t.Errorf("got %+v", c)
	}
}

func TestManyWritersFewFiles(t *testing.T) {
	l := open(t, t.TempDir(), joblog.Options{OpenFiles: 2})
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			log := l.Logger(job.ID(fmt.Sprintf("let_%02d", i)), 1, "Sorting")
			for range 20 {
				log.Info("line")
			}
		})
	}
	all.Wait()
	for i := range 16 {
		if c := read(t, l, job.ID(fmt.Sprintf("let_%02d", i)), 0, 0); len(c.Lines) != 20 {
			t.Errorf("job %d: got %d lines", i, len(c.Lines))
		}
	}
	if err := l.Remove("let_03"); err != nil {
		t.Fatal(err)
	}
	if c := read(t, l, "let_03", 0, 0); len(c.Lines) != 0 {
		t.Errorf("got %d lines after Remove", len(c.Lines))
	}
}
