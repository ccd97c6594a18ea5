package sqlite

import (
	"fmt"
	"path"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/stagepost/stagepost/internal/log"
)

// disk is a file layer between SQLite and the system's: it records the operations on the files, and fails on request.
type disk struct {
	name string // of the layer

	mu   sync.Mutex // guards all below
	log  []diskOp
	fail func(*diskOp) int32 // result code instead of doing it; 0 to do it
}

type diskOp struct {
	kind byte // 'w' write, 't' truncate, 's' sync, 'd' delete, 'p' a whole file put in place, 'a' acknowledgement
	file string
	at   int64 // offset of a write, size of a truncation
	data []byte
	dir  bool // the sync takes the directory along: names and deletions
	rest bool // the sync is of the content alone: a file that was put in place may still lack its name
	ack  fact
}

var (
	disks     sync.Map // by name of the layer and by address of its sqlite3_vfs
	openFiles sync.Map // address of a sqlite3_file to *openFile
	diskCount atomic.Int64
)

type openFile struct {
	disk *disk
	name string
	dir  bool // its first sync is the directory's too
}

// newDisk registers a layer of its own.
func newDisk(t testing.TB) *disk {
	t.Helper()
	tls := libc.NewTLS()
	d := &disk{name: fmt.Sprintf("disk%d", diskCount.Add(1))}
	base := sqlite3.Xsqlite3_vfs_find(tls, 0)
	vfs := libc.Xcalloc(tls, 1, libc.Tsize_t(unsafe.Sizeof(sqlite3.Tsqlite3_vfs{})))
	v := (*sqlite3.Tsqlite3_vfs)(ptr(vfs))
	*v = *(*sqlite3.Tsqlite3_vfs)(ptr(base))
	name, err := libc.CString(d.name)
	if err != nil {
		t.Fatal(err)
	}
	v.FzName, v.FpNext = name, 0
	v.FszOsFile += headerSize
	v.FxOpen, v.FxDelete = cFunc(diskOpen), cFunc(diskDelete)
	disks.Store(vfs, d)
	if rc := sqlite3.Xsqlite3_vfs_register(tls, vfs, 0); rc != sqlite3.SQLITE_OK {
		t.Fatalf("register: %d", rc)
	}
	t.Cleanup(func() {
		sqlite3.Xsqlite3_vfs_unregister(tls, vfs)
		tls.Close()
	})
	return d
}

// do notes an operation unless it is to fail.
func (d *disk) do(op diskOp) int32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		if rc := d.fail(&op); rc != 0 {
			return rc
		}
	}
	d.log = append(d.log, op)
	return 0
}

// acknowledged records what a caller was answered.
func (d *disk) acknowledged(f fact) { d.do(diskOp{kind: 'a', ack: f}) }

// head notes what is done to the head file, which is not SQLite's.
func (d *disk) head(op headOp) {
	switch {
	case op.sync:
		d.do(diskOp{kind: 's', file: headName})
	case len(op.data) == headSlots*slotSize:
		d.do(diskOp{kind: 'p', file: headName, data: op.data})
	default:
		d.do(diskOp{kind: 'w', file: headName, at: op.at, data: op.data})
	}
}

// frontLog notes what is done to the log in front of the database.
func (d *disk) frontLog(op log.Op) error {
	file := path.Join(logName, op.File)
	var rc int32
	switch op.Kind {
	case log.Put:
		data := make([]byte, op.Size)
		copy(data, op.Data)
		rc = d.do(diskOp{kind: 'p', file: file, data: data})
	case log.Write:
		rc = d.do(diskOp{kind: 'w', file: file, at: op.At, data: append([]byte{}, op.Data...)})
	case log.Named:
		rc = d.do(diskOp{kind: 's', file: file})
	case log.Sync:
		rc = d.do(diskOp{kind: 's', file: file, rest: true})
	case log.Remove:
		rc = d.do(diskOp{kind: 'd', file: file})
	}
	switch rc {
	case 0:
		return nil
	case sqlite3.SQLITE_FULL:
		return syscall.ENOSPC
	}
	return syscall.EIO
}

func (d *disk) failing(f func(*diskOp) int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = f
}

// A file of the layer is our header, which names the methods, and the system's file behind it.
const headerSize = 16

func ptr(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

func cFunc[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&struct{ f F }{f})) }

func goFunc[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&struct{ p uintptr }{p})) }

type (
	fileFunc  = func(*libc.TLS, uintptr) int32
	intFunc   = func(*libc.TLS, uintptr, int32) int32
	int64Func = func(*libc.TLS, uintptr, int64) int32
	bytesFunc = func(*libc.TLS, uintptr, uintptr, int32, int64) int32
	ptrFunc   = func(*libc.TLS, uintptr, uintptr) int32
	openFunc  = func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32
)

func below(file uintptr) (uintptr, *sqlite3.Tsqlite3_io_methods) {
	below := file + headerSize
	return below, (*sqlite3.Tsqlite3_io_methods)(ptr(*(*uintptr)(ptr(below))))
}

func fileOf(file uintptr) *openFile {
	f, _ := openFiles.Load(file)
	return f.(*openFile)
}

func diskOpen(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32 {
	base := (*sqlite3.Tsqlite3_vfs)(ptr(sqlite3.Xsqlite3_vfs_find(tls, 0)))
	rc := goFunc[openFunc](base.FxOpen)(tls, sqlite3.Xsqlite3_vfs_find(tls, 0), name, file+headerSize, flags, out)
	*(*uintptr)(ptr(file)) = 0
	if *(*uintptr)(ptr(file + headerSize)) != 0 {
		*(*uintptr)(ptr(file)) = diskMethods()
	}
	d, _ := disks.Load(vfs)
	// SQLite's layer for Unix syncs the directory with the first sync of a log or journal that it may have created.
	log := flags&(sqlite3.SQLITE_OPEN_WAL|sqlite3.SQLITE_OPEN_MAIN_JOURNAL) != 0
	openFiles.Store(file, &openFile{d.(*disk), filepath.Base(libc.GoString(name)), log &&
		flags&sqlite3.SQLITE_OPEN_CREATE != 0})
	return rc
}

func diskDelete(tls *libc.TLS, vfs, name uintptr, sync int32) int32 {
	d, _ := disks.Load(vfs)
	if rc := d.(*disk).do(diskOp{kind: 'd', file: filepath.Base(libc.GoString(name))}); rc != 0 {
		return rc
	}
	base := sqlite3.Xsqlite3_vfs_find(tls, 0)
	return goFunc[intFuncPtr]((*sqlite3.Tsqlite3_vfs)(ptr(base)).FxDelete)(tls, base, name, sync)
}

type intFuncPtr = func(*libc.TLS, uintptr, uintptr, int32) int32

var diskMethods = sync.OnceValue(func() uintptr {
	tls := libc.NewTLS()
	p := libc.Xcalloc(tls, 1, libc.Tsize_t(unsafe.Sizeof(sqlite3.Tsqlite3_io_methods{})))
	*(*sqlite3.Tsqlite3_io_methods)(ptr(p)) = sqlite3.Tsqlite3_io_methods{
		FiVersion: 2,
		FxClose: cFunc(func(tls *libc.TLS, f uintptr) int32 {
			b, m := below(f)
			openFiles.Delete(f)
			return goFunc[fileFunc](m.FxClose)(tls, b)
		}),
		FxRead: cFunc(func(tls *libc.TLS, f, to uintptr, n int32, at int64) int32 {
			b, m := below(f)
			return goFunc[bytesFunc](m.FxRead)(tls, b, to, n, at)
		}),
		FxWrite: cFunc(func(tls *libc.TLS, f, from uintptr, n int32, at int64) int32 {
			o := fileOf(f)
			data := append([]byte{}, unsafe.Slice((*byte)(ptr(from)), int(n))...)
			if rc := o.disk.do(diskOp{kind: 'w', file: o.name, at: at, data: data}); rc != 0 {
				return rc
			}
			b, m := below(f)
			return goFunc[bytesFunc](m.FxWrite)(tls, b, from, n, at)
		}),
		FxTruncate: cFunc(func(tls *libc.TLS, f uintptr, size int64) int32 {
			o := fileOf(f)
			if rc := o.disk.do(diskOp{kind: 't', file: o.name, at: size}); rc != 0 {
				return rc
			}
			b, m := below(f)
			return goFunc[int64Func](m.FxTruncate)(tls, b, size)
		}),
		FxSync: cFunc(func(tls *libc.TLS, f uintptr, flags int32) int32 {
			o := fileOf(f)
			op := diskOp{kind: 's', file: o.name, dir: o.dir}
			o.dir = false
			return o.disk.do(op) // the image is what counts; the real disk is spared
		}),
		FxFileSize: cFunc(func(tls *libc.TLS, f, out uintptr) int32 {
			b, m := below(f)
			return goFunc[ptrFunc](m.FxFileSize)(tls, b, out)
		}),
		FxLock: cFunc(func(tls *libc.TLS, f uintptr, how int32) int32 {
			b, m := below(f)
			return goFunc[intFunc](m.FxLock)(tls, b, how)
		}),
		FxUnlock: cFunc(func(tls *libc.TLS, f uintptr, how int32) int32 {
			b, m := below(f)
			return goFunc[intFunc](m.FxUnlock)(tls, b, how)
		}),
		FxCheckReservedLock: cFunc(func(tls *libc.TLS, f, out uintptr) int32 {
			b, m := below(f)
			return goFunc[ptrFunc](m.FxCheckReservedLock)(tls, b, out)
		}),
		FxFileControl: cFunc(func(tls *libc.TLS, f uintptr, op int32, arg uintptr) int32 {
			b, m := below(f)
			return goFunc[func(*libc.TLS, uintptr, int32, uintptr) int32](m.FxFileControl)(tls, b, op, arg)
		}),
		FxSectorSize: cFunc(func(tls *libc.TLS, f uintptr) int32 { return sector }),
		// No promise about writes that were not synced: neither powersafe overwrite nor atomic appends.
		FxDeviceCharacteristics: cFunc(func(tls *libc.TLS, f uintptr) int32 { return 0 }),
		FxShmMap: cFunc(func(tls *libc.TLS, f uintptr, region, size, extend int32, out uintptr) int32 {
			b, m := below(f)
			return goFunc[func(*libc.TLS, uintptr, int32, int32, int32, uintptr) int32](m.FxShmMap)(tls, b, region,
				size, extend, out)
		}),
		FxShmLock: cFunc(func(tls *libc.TLS, f uintptr, offset, n, flags int32) int32 {
			b, m := below(f)
			return goFunc[func(*libc.TLS, uintptr, int32, int32, int32) int32](m.FxShmLock)(tls, b, offset, n, flags)
		}),
		FxShmBarrier: cFunc(func(tls *libc.TLS, f uintptr) {
			b, m := below(f)
			goFunc[func(*libc.TLS, uintptr)](m.FxShmBarrier)(tls, b)
		}),
		FxShmUnmap: cFunc(func(tls *libc.TLS, f uintptr, del int32) int32 {
			b, m := below(f)
			return goFunc[intFunc](m.FxShmUnmap)(tls, b, del)
		}),
	}
	return p
})

// sector is what a disk writes as a whole.
const sector = 512
