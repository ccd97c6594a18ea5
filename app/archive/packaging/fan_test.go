package packaging

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a writer that takes a second for each block.
type slow struct{ bytes.Buffer }

func (s *slow) Write(b []byte) (int, error) {
	time.Sleep(time.Second)
	return s.Buffer.Write(b)
}

// TestFan gives a text to a quick and a slow writer. Each has the whole text in its order, whatever the sizes of the
// writes are, although the blocks are used again.
func TestFan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := make([]byte, 3*fanBlocks*fanBlock+77)
		random := rand.NewChaCha8([32]byte{1})
		_, _ = random.Read(text) // it does not fail
		var quick bytes.Buffer
		late := &slow{}
		f := newFan(&quick, late)
		for rest := text; len(rest) > 0; {
			n := min(1+int(random.Uint64()%(2*fanBlock)), len(rest))
			if got, err := f.Write(rest[:n]); got != n || err != nil {
				t.Fatalf("got %d, %v", got, err)
			}
			rest = rest[n:]
		}
		if err := f.close(); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(quick.Bytes(), text) || !bytes.Equal(late.Bytes(), text) {
			t.Error("a writer got another text")
		}
	})
}

// TestFanFails reports the error of a writer, at the latest at the end, and ends although the other is slow. The
// control is TestFan.
func TestFanFails(t *testing.T) {
	for _, blocks := range []int{1, 4 * fanBlocks} {
		synctest.Test(t, func(t *testing.T) {
			f := newFan(&slow{}, &limited{})
			text := make([]byte, fanBlock)
			var err error
			for range blocks {
				if _, err = f.Write(text); err != nil {
					break
				}
			}
			if blocks > fanBlocks && err == nil {
				t.Error("all was written")
			}
			if err := f.close(); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("got %v", err)
			}
			f.abandon() // again, as the caller may
		})
	}
}

// TestFanAbandoned writes nothing more.
func TestFanAbandoned(t *testing.T) {
	var out bytes.Buffer
	f := newFan(&out, io.Discard)
	if _, err := f.Write([]byte("text")); err != nil {
		t.Fatal(err)
	}
	f.abandon()
	if out.Len() > 0 {
		t.Errorf("%q was written", out.String())
	}
}
