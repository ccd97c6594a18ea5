package collect

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReport gets a report for each file that is omitted or renamed, with its reason, also beyond the limit of the
// manifest; a file of Last comes last. The control is a directory in which nothing is odd.
func TestReport(t *testing.T) {
	for _, odd := range []bool{true, false} {
		t.Run(fmt.Sprint("odd ", odd), func(t *testing.T) {
			dir, err := os.MkdirTemp("", "tell") // short enough for the path of a socket
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			write := func(name, text string) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write("fine.txt", "fine")
			want := map[Reason]int{}
			if odd {
				if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
					t.Fatal(err)
				}
				l, err := net.Listen("unix", filepath.Join(dir, "sock"))
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				for name, to := range map[string]string{"out": "/etc/passwd", "up": "../../x"} {
					if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
						t.Fatal(err)
					}
				}
				write("large", strings.Repeat("x", 100))
				write("report", "not the real one")
				write("line\nbreak", "odd")
				for i := range mostListed {
					if err := os.Symlink("/", filepath.Join(dir, fmt.Sprintf("z%d", i))); err != nil {
						t.Fatal(err)
					}
				}
				want = map[Reason]int{FIFO: 1, Socket: 1, LinkOut: 2 + mostListed, TooLarge: 1, NewName: 2}
			}
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			got, order := map[Reason]int{}, ""
			o := Options{MaxBytes: 50, Report: func(why Reason, name, sentence string) {
				if got[why]++; name == "" || sentence == "" || strings.Contains(name, "\n") {
					t.Errorf("%s: %q, %q", why, name, sentence)
				}
			}}
			o.Last = []Extra{{"report", func() (io.ReadCloser, error) {
				order = fmt.Sprint(len(got))
				return io.NopCloser(strings.NewReader(order)), nil
			}}}
			files, _ := pack(t, root, o)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if files["report"] != fmt.Sprint(len(want)) || odd && files["report~1"] != "not the real one" ||
				files["fine.txt"] != "fine" {
				t.Errorf("got %q", files)
			}
		})
	}
}
