//go:build linux && (amd64 || arm64)

package durable

import (
	"bytes"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The guarantee of syncfs(2): Linux waits until all changes of the file system are on the disk, so it is the same as
// fsync of every file in it (manual page sync(2), section NOTES). Two things have to hold besides:
//
//   - Failed writes are reported: since Linux 5.8, to each open file once. So one file stays open from the first use
//     of a file system until the process ends, and no failure between two syncs is lost.
//   - The file system implements the call: a FUSE file system, for example, is never asked to sync. So only those of
//     [wholes] are used.
var wholes = map[int64]bool{
	ext4Magic:  true, // also ext3; ext2 has another driver, or this one
	0x58465342: true, // XFS
	0x9123683e: true, // Btrfs
}

// ext4Magic is the type of ext4 in statfs(2).
const ext4Magic = 0xef53

// Bounds of the bytes in memory that wait to be written to any disk. A sync of a whole file system waits for the writes
// of all programs.
const (
	mostDirty = 64 << 20  // above it a set does not wait for such a sync
	mostClean = 512 << 20 // up to it one is done without a set that waits, so that the next sets can wait for one
)

// dirtyEvery is how often these bytes are read.
const dirtyEvery = 250 * time.Millisecond

var (
	systemsMu sync.Mutex
	systems   = map[uint64]*system{} // by device; guarded by systemsMu
	dirtyAt   time.Time              // when dirty was read; guarded by systemsMu
	dirty     int64                  // bytes; guarded by systemsMu
)

// systemOf gives the file system of a directory, or nil if it is not, or should not now be, synced as a whole.
func systemOf(root *os.Root) *system {
	info, err := root.Stat(".")
	if err != nil {
		return nil
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !reportsErrors() {
		return nil
	}
	systemsMu.Lock()
	defer systemsMu.Unlock()
	s := systems[stat.Dev]
	if s == nil {
		if s = openSystem(root, stat.Dev); s == nil {
			return nil
		}
		systems[stat.Dev] = s
	}
	if s.failed.Load() != nil {
		return nil
	}
	return s.unless(dirtyNow())
}

// unless gives the file system if a sync of it is quick. Otherwise files are synced one by one; most files of a working
// directory are not synced then, and would keep it so until the kernel writes them, which takes half a minute. So it is
// synced without a set that waits.
func (s *system) unless(dirty int64) *system {
	switch {
	case dirty <= mostDirty:
		return s
	case dirty <= mostClean && s.cleaning.CompareAndSwap(false, true):
		go func() {
			defer s.cleaning.Store(false)
			_ = s.wait(s.next()) // a failure is kept for all sets
		}()
	}
	return nil
}

func openSystem(root *os.Root, device uint64) *system {
	dir, err := root.Open(".")
	if err != nil {
		return nil
	}
	var kind syscall.Statfs_t
	if err := syscall.Fstatfs(int(dir.Fd()), &kind); err != nil || !wholes[kind.Type] {
		_ = dir.Close()
		return nil
	}
	twice := kind.Type == ext4Magic && !journaled(device)
	return &system{sync: func() error { return syncWhole(dir, twice) }}
}

// journaled reports whether an ext4 file system is known to have a journal: the kernel names the thread that writes it,
// or <none>.
func journaled(device uint64) bool {
	where, err := os.Readlink("/sys/dev/block/" + deviceNumber(device))
	if err != nil {
		return false
	}
	text, err := os.ReadFile("/sys/fs/ext4/" + path.Base(where) + "/journal_task")
	return err == nil && namesThread(string(text))
}

// deviceNumber writes the number of a device as the kernel does (makedev(3)).
func deviceNumber(device uint64) string {
	major := device>>8&0xfff | device>>32&^0xfff
	minor := device&0xff | device>>12&0xffffff00
	return strconv.FormatUint(major, 10) + ":" + strconv.FormatUint(minor, 10)
}

// namesThread reads the file journal_task of ext4.
func namesThread(text string) bool {
	id, err := strconv.Atoi(strings.TrimSpace(text))
	return err == nil && id > 0
}

// syncWhole syncs the file system of a directory. ext4 without a journal writes its directories after it has asked the
// disk to empty its cache; the sync of the directory then asks once more (twice). With a journal the call waits until
// the journal and the cache of the disk are written.
func syncWhole(dir *os.File, twice bool) error {
	for {
		_, _, errno := syscall.Syscall(sysSyncfs, dir.Fd(), 0, 0)
		switch {
		case errno == syscall.EINTR:
			continue
		case errno != 0:
			return os.NewSyscallError("syncfs", errno)
		case twice:
			return dir.Sync()
		}
		return nil
	}
}

// reportsErrors reports whether the kernel is Linux 5.8 or later.
var reportsErrors = sync.OnceValue(func() bool {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	return err == nil && atLeast58(string(text))
})

// atLeast58 reads a release such as 6.1.0-18-amd64.
func atLeast58(release string) bool {
	var numbers [2]int
	for i := range numbers {
		end := 0
		for end < len(release) && release[end] >= '0' && release[end] <= '9' {
			end++
		}
		n, err := strconv.Atoi(release[:end])
		if err != nil {
			return false
		}
		numbers[i] = n
		release = release[min(end+1, len(release)):]
	}
	return numbers[0] > 5 || numbers[0] == 5 && numbers[1] >= 8
}

// dirtyNow returns how many bytes wait to be written, as of the last dirtyEvery. The caller holds systemsMu.
func dirtyNow() int64 {
	if now := time.Now(); now.Sub(dirtyAt).Abs() > dirtyEvery {
		text, err := os.ReadFile("/proc/meminfo")
		bytes, known := dirtyBytes(text)
		if err != nil || !known {
			bytes = math.MaxInt64
		}
		dirty, dirtyAt = bytes, now
	}
	return dirty
}

// dirtyBytes reads what waits to be written, or is being written, from /proc/meminfo (proc(5)).
func dirtyBytes(text []byte) (n int64, known bool) {
	seen := 0
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) != 3 || string(fields[0]) != "Dirty:" && string(fields[0]) != "Writeback:" {
			continue
		}
		kib, err := strconv.ParseInt(string(fields[1]), 10, 64)
		if err != nil {
			return 0, false
		}
		n, seen = n+kib<<10, seen+1
	}
	return n, seen == 2
}
