package packaging

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"runtime"

	"github.com/klauspost/compress/flate"
)

// Blocks that are compressed each for itself, and how many at a time.
const (
	gzipBlock   = 1 << 20
	gzipWorkers = 4
)

// gzipHeader has no name, no time and no system (RFC 1952 section 2.3): deflate, the fastest level.
var gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff}

// gzipWriter compresses several blocks at once into one gzip member. Blocks have a fixed size and no common window,
// so that the output depends only on the input, not on the number of processors or of writes. It is for one goroutine.
type gzipWriter struct {
	to      io.Writer
	crc     uint32
	size    uint32
	block   []byte
	queue   []*gzipJob // in order; the oldest first
	workers int
	free    []*gzipJob
	started bool
	err     error
}

// gzipJob is a block and its compressed form.
type gzipJob struct {
	plain  []byte
	packed bytes.Buffer
	flate  *flate.Writer
	err    error
	done   chan struct{}
}

func newGzip(to io.Writer) *gzipWriter {
	return &gzipWriter{to: to, workers: min(runtime.GOMAXPROCS(0), gzipWorkers)}
}

// Write implements [io.Writer].
func (g *gzipWriter) Write(b []byte) (int, error) {
	total := len(b)
	g.crc = crc32.Update(g.crc, crc32.IEEETable, b)
	g.size += uint32(total)
	for len(b) > 0 && g.err == nil {
		if g.block == nil {
			g.block = make([]byte, 0, gzipBlock)
		}
		n := min(len(b), gzipBlock-len(g.block))
		g.block, b = append(g.block, b[:n]...), b[n:]
		if len(g.block) == gzipBlock {
			g.start(false)
		}
	}
	if g.err != nil {
		return total - len(b), g.err
	}
	return total, nil
}

// start compresses the block in another goroutine. If all workers have one, it waits for the oldest.
func (g *gzipWriter) start(last bool) {
	if !g.started {
		g.started = true
		_, g.err = g.to.Write(gzipHeader)
	}
	for len(g.queue) >= g.workers && g.err == nil {
		g.finish()
	}
	j := &gzipJob{}
	if n := len(g.free); n > 0 {
		j, g.free = g.free[n-1], g.free[:n-1]
	}
	j.plain, g.block = g.block, j.plain[:0]
	j.done = make(chan struct{})
	g.queue = append(g.queue, j)
	go j.compress(last)
}

func (j *gzipJob) compress(last bool) {
	defer close(j.done)
	j.packed.Reset()
	if j.flate == nil {
		j.flate, j.err = flate.NewWriter(&j.packed, flate.BestSpeed)
	} else {
		j.flate.Reset(&j.packed)
	}
	if j.err != nil {
		return
	}
	_, j.err = j.flate.Write(j.plain)
	end := j.flate.Flush // the next block begins at a byte
	if last {
		end = j.flate.Close
	}
	if j.err == nil {
		j.err = end()
	}
}

// finish writes the oldest block.
func (g *gzipWriter) finish() {
	j := g.queue[0]
	g.queue = g.queue[1:]
	<-j.done
	g.err = errors.Join(g.err, j.err)
	if g.err == nil {
		_, g.err = g.to.Write(j.packed.Bytes())
	}
	g.free = append(g.free, j)
}

// Close writes the rest. It does not close the underlying writer.
func (g *gzipWriter) Close() error {
	if g.err == nil {
		g.start(true)
	}
	for len(g.queue) > 0 {
		g.finish()
	}
	if g.err != nil {
		return g.err
	}
	_, g.err = g.to.Write(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, g.crc), g.size))
	return g.err
}
