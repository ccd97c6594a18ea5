package inventory

import (
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/stagepost/stagepost/job"
)

// failingSync makes the syncs of files below SQLite fail.
var failingSync atomic.Int32

// syncs counts the syncs of files below SQLite that did not fail.
var syncs atomic.Int64

func ptr(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

func cFunc[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&struct{ f F }{f})) }

func goFunc[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&struct{ p uintptr }{p})) }

type (
	openFunc = func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32
	syncFunc = func(*libc.TLS, uintptr, int32) int32
)

var (
	methodsMu sync.Mutex
	// guarded by methodsMu: of a file below, to those that are the same but for the sync
	methods = map[uintptr]uintptr{}
	plain   = map[uintptr]uintptr{} // guarded by methodsMu: of a file of the layer, to its sync below
)

func withFailingSync(tls *libc.TLS, of uintptr) uintptr {
	methodsMu.Lock()
	defer methodsMu.Unlock()
	if methods[of] == 0 {
		p := libc.Xcalloc(tls, 1, libc.Tsize_t(unsafe.Sizeof(sqlite3.Tsqlite3_io_methods{})))
		m := (*sqlite3.Tsqlite3_io_methods)(ptr(p))
		*m = *(*sqlite3.Tsqlite3_io_methods)(ptr(of))
		plain[p] = m.FxSync
		m.FxSync = cFunc(layerSync)
		methods[of] = p
	}
	return methods[of]
}

// layerSync is called by C: it may be no closure, which the garbage collector would not find there.
func layerSync(tls *libc.TLS, file uintptr, flags int32) int32 {
	if rc := failingSync.Load(); rc != 0 {
		return rc
	}
	syncs.Add(1)
	methodsMu.Lock()
	below := plain[*(*uintptr)(ptr(file))]
	methodsMu.Unlock()
	return goFunc[syncFunc](below)(tls, file, flags)
}

func layerOpen(tls *libc.TLS, _, name, file uintptr, flags int32, out uintptr) int32 {
	base := sqlite3.Xsqlite3_vfs_find(tls, 0)
	rc := goFunc[openFunc]((*sqlite3.Tsqlite3_vfs)(ptr(base)).FxOpen)(tls, base, name, file, flags, out)
	if of := *(*uintptr)(ptr(file)); of != 0 {
		*(*uintptr)(ptr(file)) = withFailingSync(tls, of)
	}
	return rc
}

// newLayer registers a file layer whose syncs fail while failingSync is set.
func newLayer(t *testing.T) {
	t.Helper()
	tls := libc.NewTLS()
	base := sqlite3.Xsqlite3_vfs_find(tls, 0)
	vfs := libc.Xcalloc(tls, 1, libc.Tsize_t(unsafe.Sizeof(sqlite3.Tsqlite3_vfs{})))
	v := (*sqlite3.Tsqlite3_vfs)(ptr(vfs))
	*v = *(*sqlite3.Tsqlite3_vfs)(ptr(base))
	name, err := libc.CString("failing-sync")
	if err != nil {
		t.Fatal(err)
	}
	v.FzName, v.FpNext, v.FxOpen = name, 0, cFunc(layerOpen)
	if rc := sqlite3.Xsqlite3_vfs_register(tls, vfs, 0); rc != sqlite3.SQLITE_OK {
		t.Fatalf("register: %d", rc)
	}
	layer = "&vfs=failing-sync"
	t.Cleanup(func() {
		layer = ""
		failingSync.Store(0)
		sqlite3.Xsqlite3_vfs_unregister(tls, vfs)
		tls.Close()
	})
}

// A failed sync ends the inventory as it ends the store: nothing is written afterwards, even if the disk would take it,
// and Dead gives the error once. The next start has what was acknowledged.
func TestStopsAfterAFailedSync(t *testing.T) {
	newLayer(t)
	path := filepath.Join(t.TempDir(), "inventory.db")
	i, err := Open(t.Context(), path, "one")
	if err != nil {
		t.Fatal(err)
	}
	record := func(name string) error { return i.Record(t.Context(), entry("ark:/1/"+name, name, 1), files(2, nil)) }
	if err := record("a"); err != nil {
		t.Fatalf("control: %v", err)
	}
	failingSync.Store(sqlite3.SQLITE_IOERR_FSYNC)
	if err := record("b"); err == nil {
		t.Fatal("a commit that was not synced was acknowledged")
	}
	failingSync.Store(0)
	if err := record("c"); job.KindOf(err) != job.Unavailable ||
		!strings.Contains(err.Error(), "after a failure of the disk") {
		t.Errorf("got %v", err)
	}
	select {
	case err := <-i.Dead():
		if !strings.Contains(err.Error(), "commit") {
			t.Errorf("got %v", err)
		}
	default:
		t.Error("Dead is not closed")
	}
	if err := i.Close(); err != nil {
		t.Error(err)
	}
	if i, err = Open(t.Context(), path, "one"); err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	if all, err := i.Objects(t.Context(), Query{ARK: "ark:/1/a"}); err != nil || len(all) != 1 {
		t.Errorf("what was acknowledged is lost: %v, %v", all, err)
	}
	if err := record("d"); err != nil {
		t.Errorf("control: %v", err)
	}
	if len(i.Dead()) > 0 {
		t.Error("control: a sound inventory is dead")
	}
}
