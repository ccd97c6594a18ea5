package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/sandbox"
)

// bigBytes is the size of the file in TestBig. 2 GiB takes a minute: go test -run Big -big 2147483648.
var bigBytes = flag.Int64("big", 64<<20, "bytes of the file that goes up and down in TestBig")

// peak gives the highest resident memory of a process so far, in bytes (proc_pid_status(5), VmHWM).
func peak(t *testing.T, pid string) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatal("the system does not report it")
	return 0
}

// noise gives bytes that cannot be packed, the same at each reading.
type noise struct {
	at, size int64
	block    []byte
}

func newNoise(size int64) *noise {
	block := make([]byte, 0, 1<<20)
	for sum := sha256.Sum256(nil); len(block) < cap(block); sum = sha256.Sum256(sum[:]) {
		block = append(block, sum[:]...)
	}
	return &noise{size: size, block: block}
}

func (n *noise) Read(p []byte) (int, error) {
	if n.at >= n.size {
		return 0, io.EOF
	}
	got := copy(p, n.block[n.at%int64(len(n.block)):])
	got = int(min(int64(got), n.size-n.at))
	n.at += int64(got)
	return got, nil
}

func (n *noise) Seek(offset int64, whence int) (int64, error) {
	if whence != io.SeekStart || offset != 0 {
		return 0, errors.ErrUnsupported
	}
	n.at = 0
	return 0, nil
}

func (*noise) Close() error { return nil }

// TestBig sends a file up, has it in the results, and takes these down, from another process than the agent: neither
// needs more than 64 MiB.
func TestBig(t *testing.T) {
	p := spawn(t, filepath.Join(t.TempDir(), "agent"), sandbox.None)
	sum := sha256.New()
	if _, err := io.Copy(sum, newNoise(*bigBytes)); err != nil {
		t.Fatal(err)
	}
	before := peak(t, "self")
	k := ticket()
	small := parcel(k, "echo done")
	big := *small
	big.Inputs = true
	big.Files = append(big.Files, compute.File{Name: "big.bin", Size: *bigBytes,
		SHA256: hex.EncodeToString(sum.Sum(nil))})
	big.Open = func(name string) (io.ReadSeekCloser, error) {
		if name == "big.bin" {
			return newNoise(*bigBytes), nil
		}
		return small.Open(name)
	}
	if _, err := p.Submit(t.Context(), &big); err != nil {
		t.Fatal(err)
	}
	n, err := p.await(t.Context(), k)
	if err != nil || n.Ending == nil || n.Ending.Cause != "" || n.Bytes < *bigBytes {
		t.Fatalf("got %+v, %v", n, err)
	}
	r, err := p.Results(t.Context(), handle(k))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	down := sha256.New()
	if size, err := io.Copy(down, r); err != nil || size != n.Bytes || hex.EncodeToString(down.Sum(nil)) != n.SHA256 {
		t.Errorf("got %d of %d bytes, %v", size, n.Bytes, err)
	}
	agent, self := peak(t, strconv.Itoa(p.command.Process.Pid)), peak(t, "self")
	t.Logf("%d bytes up and %d down; peak of the agent %d MiB, of the other side %d MiB more than before", *bigBytes, n.Bytes, agent>>20, (self-before)>>20)
	if !watched && (agent > 64<<20 || self-before > 64<<20) {
		t.Errorf("more than 64 MiB: the agent %d, the other side %d", agent, self-before)
	}
	if !bytes.Equal(newNoise(32).block[:32], newNoise(64).block[:32]) {
		t.Error("control: the content is not the same at each reading")
	}
}

// await waits for the end of a payload by checks that wait.
func (p *process) await(ctx context.Context, k compute.Ticket) (n compute.Notice, err error) {
	for n.Standing != compute.Ended && err == nil {
		h := handle(k)
		err = call(ctx, p.Remote, "GET", "?wait=10s", &h, &n)
	}
	return n, err
}
