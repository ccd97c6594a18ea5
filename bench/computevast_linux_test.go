package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/client"
)

var vast = flag.Bool("vast", false, "BenchmarkComputeMemory sends 2 GiB up and down by the own API instead of 64 MiB")

// What job-orchestrator 2.2.3 needs for 300 MB up and down, in MB.
const (
	originalClientMB = 1390
	originalServerMB = 3140
)

// services is what the measured server and its agent are reported: results hold no unchanged inputs.
const services = "services:\n  example:\n    leave_inputs: true\nagents:\n  near:\n    url: %s\n"

// BenchmarkComputeMemory starts the built program as server and as agent, and reports the memory that each has when it
// is idle, and the most that it had after a large file went up and came back as results: 300 MB over the wire of
// job-orchestrator, and with -vast 2 GiB over the own API by a resumable upload.
func BenchmarkComputeMemory(b *testing.B) {
	name := filepath.Join(b.TempDir(), "stagepost")
	build := exec.Command("go", "build", "-trimpath", "-o", name, "../cmd/stagepost")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, text)
	}
	b.Run("wire", func(b *testing.B) {
		memory(b, name, 300_000_000, func(c *computing, _ string, bytes int64) int64 {
			return c.download(c.uploadLarge(bytes))
		})
		b.ReportMetric(originalClientMB, "original-client-MB")
		b.ReportMetric(originalServerMB, "original-server-MB")
	})
	b.Run("own", func(b *testing.B) {
		bytes := int64(64 << 20)
		if *vast {
			bytes = 2 << 30
		}
		memory(b, name, bytes, there)
	})
}

// memory measures one way to send bytes up and get them back, by a new server and a new agent.
func memory(b *testing.B, name string, bytes int64, thereAndBack func(c *computing, url string, bytes int64) int64) {
	dir := b.TempDir()
	a := started(b, name, "compute", "agent", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "agent"),
		"--name", "near", "--sandbox", "native")
	file := filepath.Join(dir, "services.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, services, a.read("address")), 0o600); err != nil {
		b.Fatal(err)
	}
	s := started(b, name, "serve", "--listen", "127.0.0.1:0", "--compute-listen", "127.0.0.1:0",
		"--compute-services", file, "--data", filepath.Join(dir, "server"))
	c := &computing{b: b, url: s.read("compute-address"), client: &http.Client{Transport: &http.Transport{}}}
	defer c.client.CloseIdleConnections()
	c.await(c.upload(1, noopScript), crowd)
	b.ReportMetric(a.memory("VmRSS"), "agent-idle-MiB")
	b.ReportMetric(s.memory("VmRSS"), "server-idle-MiB")
	start := time.Now()
	if n := thereAndBack(c, s.read("address"), bytes); n < bytes {
		b.Errorf("%d bytes came back of %d", n, bytes)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(bytes)/1e6, "MB")
	b.ReportMetric(time.Since(start).Seconds(), "s")
	b.ReportMetric(a.memory("VmHWM"), "agent-peak-MiB")
	b.ReportMetric(s.memory("VmHWM"), "server-peak-MiB")
}

// there sends a file over the own API and gives the bytes of its results.
func there(c *computing, url string, bytes int64) int64 {
	c.b.Helper()
	ctx, cancel := context.WithTimeout(c.b.Context(), 20*time.Minute)
	defer cancel()
	api, err := client.New(url, client.Options{})
	if err != nil {
		c.b.Fatal(err)
	}
	defer api.Close()
	order := client.ComputeOrder{Service: "example", Files: []client.ComputeInline{{Name: "run.sh", Text: giveBack}}}
	j, err := api.SubmitCompute(ctx, order,
		[]client.ComputeSource{{Name: "sent", Size: bytes, Content: newNoise()}}, func(int64, int64) {})
	for err == nil && !j.Ended {
		j, err = api.ComputeJob(ctx, j.ID)
		time.Sleep(crowd)
	}
	if err != nil || j.State != compute.Completed {
		c.b.Fatalf("%+v, %v", j, err)
	}
	results, err := api.ComputeResults(ctx, j.ID, "", 0)
	if err != nil {
		c.b.Fatal(err)
	}
	defer results.Body.Close()
	n, err := io.Copy(io.Discard, results.Body)
	if err != nil {
		c.b.Fatal(err)
	}
	return n
}

// giveBack is a script that gives the file that was sent back under another name.
const giveBack = "#!/bin/bash\nmv sent made\n"

// noise is a file without an end that no one can pack: it repeats itself further apart than Deflate remembers.
type noise []byte

func newNoise() noise {
	n := make(noise, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(n)
	return n
}

// ReadAt is part of io.ReaderAt.
func (n noise) ReadAt(p []byte, off int64) (int, error) {
	for done := 0; done < len(p); {
		done += copy(p[done:], n[(off+int64(done))%int64(len(n)):])
	}
	return len(p), nil
}

// program is the built program while it runs.
type program struct {
	b    *testing.B
	cmd  *exec.Cmd
	data string
}

// started starts it and waits for the line that states that it is ready. It ends with the benchmark, and with its
// process.
func started(b *testing.B, name string, args ...string) *program {
	b.Helper()
	p := &program{b: b, cmd: exec.Command(name, args...)}
	for i, arg := range args {
		if arg == "--data" {
			p.data = args[i+1]
		}
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	var log bytes.Buffer
	p.cmd.Stderr = &log
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		if err := p.cmd.Wait(); err != nil {
			b.Errorf("%s: %v\n%s", args[0], err, &log)
		}
	})
	if n, err := out.Read(make([]byte, 4096)); err != nil {
		b.Fatalf("%s: %d, %v", args[0], n, err)
	}
	return p
}

// read gives a file of one line out of its data directory.
func (p *program) read(name string) string {
	p.b.Helper()
	text, err := os.ReadFile(filepath.Join(p.data, name))
	if err != nil {
		p.b.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// memory gives a line of /proc/PID/status (proc_pid_status(5)) in MiB: VmRSS is what it has now, VmHWM the most that it
// had.
func (p *program) memory(what string) float64 {
	p.b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\n"+what+":")
	if f := strings.Fields(after); len(f) > 0 {
		if kib, err := strconv.ParseFloat(f[0], 64); err == nil {
			return kib / 1024
		}
	}
	p.b.Fatalf("there is no %s", what)
	return 0
}

// uploadLarge sends a file that cannot be packed, and a script that gives it back under another name.
func (c *computing) uploadLarge(bytes int64) int {
	c.b.Helper()
	body, in := io.Pipe()
	form := multipart.NewWriter(in)
	go func() {
		_, _ = form.WriteField("user_id", "1"), form.WriteField("service", "example")
		w, err := form.CreateFormFile("file", "run.sh")
		if err == nil {
			_, err = io.WriteString(w, giveBack)
		}
		if err == nil {
			w, err = form.CreateFormFile("file", "sent")
		}
		if err == nil {
			_, err = io.Copy(w, io.NewSectionReader(newNoise(), 0, bytes))
		}
		if err == nil {
			err = form.Close()
		}
		in.CloseWithError(err)
	}()
	resp, err := c.client.Post(c.url+"/upload", form.FormDataContentType(), body)
	if err != nil {
		c.b.Fatal(err)
	}
	defer resp.Body.Close()
	var answer wire.StatusBody
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusCreated {
		c.b.Fatalf("upload: %d %+v, %v", resp.StatusCode, answer, err)
	}
	return int(answer.ID)
}

// download asks for the results until they are there, and counts their bytes.
func (c *computing) download(id int) int64 {
	c.b.Helper()
	ctx, cancel := context.WithTimeout(c.b.Context(), 20*time.Minute)
	defer cancel()
	for pause := time.NewTicker(100 * time.Millisecond); ; <-pause.C {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/download/%d", c.url, id), nil)
		if err != nil {
			c.b.Fatal(err)
		}
		resp, err := c.client.Do(r)
		if err != nil {
			c.b.Fatal(err)
		}
		if resp.Header.Get("Content-Type") == "application/zip" {
			n, err := io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if err != nil {
				c.b.Fatal(err)
			}
			return n
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || strings.Contains(string(text), `"Failed"`) || strings.Contains(string(text), `"Invalid"`) {
			c.b.Fatalf("%q, %v", text, err)
		}
	}
}
