package power

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// tree is the file system. One lock guards all of it.
type tree struct {
	mu     sync.Mutex
	ignore []string // patterns of names whose syncs do nothing
	every  string   // directory for an image at each point; none if empty
	atOnce bool     // names are on the disk at once
	each   int      // of so many points, one has an image
	first  int
	points int
	root   *node
}

// node is a file, a directory or a symbolic link: what programs see, and what is on the disk.
type node struct {
	fs.Inode
	t      *tree
	mode   uint32
	uid    uint32
	gid    uint32
	mtime  time.Time
	data   []byte
	target string

	disk  []byte           // of a file, as of its last sync
	names map[string]*node // of a directory, as of its last sync
}

func (t *tree) node(mode uint32) *node {
	return &node{t: t, mode: mode, mtime: time.Now(), names: map[string]*node{}}
}

var (
	_ fs.NodeGetattrer  = (*node)(nil)
	_ fs.NodeSetattrer  = (*node)(nil)
	_ fs.NodeOpener     = (*node)(nil)
	_ fs.NodeReader     = (*node)(nil)
	_ fs.NodeWriter     = (*node)(nil)
	_ fs.NodeFsyncer    = (*node)(nil)
	_ fs.NodeCreater    = (*node)(nil)
	_ fs.NodeMkdirer    = (*node)(nil)
	_ fs.NodeSymlinker  = (*node)(nil)
	_ fs.NodeReadlinker = (*node)(nil)
	_ fs.NodeLinker     = (*node)(nil)
	_ fs.NodeUnlinker   = (*node)(nil)
	_ fs.NodeRmdirer    = (*node)(nil)
	_ fs.NodeRenamer    = (*node)(nil)
	_ fs.NodeStatfser   = (*node)(nil)
)

func (n *node) attr(out *fuse.Attr) {
	out.Mode, out.Size, out.Nlink = n.mode, uint64(len(n.data)+len(n.target)), 1
	out.Uid, out.Gid, out.Blocks = n.uid, n.gid, (out.Size+511)/512
	out.SetTimes(&n.mtime, &n.mtime, &n.mtime)
}

// Getattr is part of fs.NodeGetattrer.
func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.t.mu.Lock()
	defer n.t.mu.Unlock()
	n.attr(&out.Attr)
	return 0
}

// Setattr is part of fs.NodeSetattrer.
func (n *node) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	n.t.mu.Lock()
	defer n.t.mu.Unlock()
	if size, ok := in.GetSize(); ok {
		n.resize(int(size))
	}
	if mode, ok := in.GetMode(); ok {
		n.mode = n.mode&syscall.S_IFMT | mode&0o7777
	}
	if uid, ok := in.GetUID(); ok {
		n.uid = uid
	}
	if gid, ok := in.GetGID(); ok {
		n.gid = gid
	}
	if mtime, ok := in.GetMTime(); ok {
		n.mtime = mtime
	}
	n.attr(&out.Attr)
	return 0
}

func (n *node) resize(size int) {
	data := make([]byte, size)
	copy(data, n.data)
	n.data = data
}

// Open is part of fs.NodeOpener.
func (n *node) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	n.t.mu.Lock()
	defer n.t.mu.Unlock()
	if flags&syscall.O_TRUNC != 0 {
		n.data = nil
	}
	return nil, opened(n.Path(nil)), 0
}

// opened gives the flags of an open file: each write arrives at once, but in what SQLite maps into the memory of
// several connections.
func opened(name string) uint32 {
	if strings.HasSuffix(name, "-shm") {
		return 0
	}
	return fuse.FOPEN_DIRECT_IO
}

// Read is part of fs.NodeReader.
func (n *node) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n.t.mu.Lock()
	defer n.t.mu.Unlock()
	from := min(off, int64(len(n.data)))
	return fuse.ReadResultData(append([]byte{}, n.data[from:min(from+int64(len(dest)), int64(len(n.data)))]...)), 0
}

// Write is part of fs.NodeWriter.
func (n *node) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	n.t.mu.Lock()
	defer n.t.mu.Unlock()
	if end := int(off) + len(data); end > len(n.data) {
		n.resize(end)
	}
	copy(n.data[off:], data)
	n.mtime = time.Now()
	return uint32(len(data)), 0
}

// Fsync is part of fs.NodeFsyncer: it brings a file's content, or the names in a directory, to the disk.
func (n *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	n.t.mu.Lock()
	defer n.t.mu.Unlock()
	if errno := n.t.cut(true); errno != 0 {
		return errno
	}
	name := path.Base(n.Path(nil))
	for _, pattern := range n.t.ignore {
		if match, _ := path.Match(pattern, name); match {
			return 0
		}
	}
	if n.mode&syscall.S_IFMT == syscall.S_IFDIR {
		n.names = map[string]*node{}
		for name, child := range n.Children() {
			n.names[name] = child.Operations().(*node)
		}
	} else {
		n.disk = append([]byte{}, n.data...)
	}
	return n.t.cut(false)
}

// cut makes an image, before a change if names are on the disk at once, else after one. The lock is held.
func (t *tree) cut(before bool) syscall.Errno {
	if t.every == "" || before != t.atOnce {
		return 0
	}
	if t.points++; (t.points-1)%t.each != t.first {
		return 0
	}
	return fs.ToErrno(t.root.image(filepath.Join(t.every, fmt.Sprintf("%05d", t.points))))
}

// onDisk gives the names of a directory that are on the disk.
func (n *node) onDisk() map[string]*node {
	if !n.t.atOnce {
		return n.names
	}
	names := map[string]*node{}
	for name, child := range n.Children() {
		names[name] = child.Operations().(*node)
	}
	return names
}

// image writes what is on the disk below a directory. The lock is held.
func (n *node) image(to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for name, child := range n.onDisk() {
		var err error
		switch file := filepath.Join(to, name); child.mode & syscall.S_IFMT {
		case syscall.S_IFDIR:
			err = child.image(file)
		case syscall.S_IFLNK:
			err = os.Symlink(child.target, file)
		default:
			err = os.WriteFile(file, child.disk, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add makes a child of a directory.
func (n *node) add(ctx context.Context, child *node, out *fuse.EntryOut) *fs.Inode {
	if c, ok := fuse.FromContext(ctx); ok {
		child.uid, child.gid = c.Uid, c.Gid
	}
	child.attr(&out.Attr)
	return n.NewPersistentInode(ctx, child, fs.StableAttr{Mode: child.mode & syscall.S_IFMT})
}

// Create is part of fs.NodeCreater.
func (n *node) Create(ctx context.Context, name string, _, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle,
	uint32, syscall.Errno) {
	n.t.mu.Lock()
	defer n.t.mu.Unlock()
	inode := n.add(ctx, n.t.node(syscall.S_IFREG|mode&0o7777), out)
	n.AddChild(name, inode, true)
	return inode, nil, opened(name), 0
}

// Mkdir is part of fs.NodeMkdirer.
func (n *node) Mkdir(ctx context.Context, _ string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	n.t.mu.Lock()
	defer n.t.mu.Unlock()
	return n.add(ctx, n.t.node(syscall.S_IFDIR|mode&0o7777), out), 0
}

// Symlink is part of fs.NodeSymlinker.
func (n *node) Symlink(ctx context.Context, target, _ string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	n.t.mu.Lock()
	defer n.t.mu.Unlock()
	child := n.t.node(syscall.S_IFLNK | 0o777)
	child.target = target
	return n.add(ctx, child, out), 0
}

// Readlink is part of fs.NodeReadlinker.
func (n *node) Readlink(context.Context) ([]byte, syscall.Errno) { return []byte(n.target), 0 }

// Link is part of fs.NodeLinker.
func (n *node) Link(_ context.Context, target fs.InodeEmbedder, _ string, out *fuse.EntryOut) (*fs.Inode,
	syscall.Errno) {
	n.t.mu.Lock()
	defer n.t.mu.Unlock()
	target.(*node).attr(&out.Attr)
	return target.EmbeddedInode(), 0
}

// Unlink is part of fs.NodeUnlinker.
func (n *node) Unlink(context.Context, string) syscall.Errno {
	n.t.mu.Lock()
	defer n.t.mu.Unlock()
	return n.t.cut(true)
}

// Rmdir is part of fs.NodeRmdirer.
func (n *node) Rmdir(_ context.Context, name string) syscall.Errno {
	if child := n.GetChild(name); child != nil && len(child.Children()) > 0 {
		return syscall.ENOTEMPTY
	}
	n.t.mu.Lock()
	defer n.t.mu.Unlock()
	return n.t.cut(true)
}

// Rename is part of fs.NodeRenamer.
func (n *node) Rename(_ context.Context, name string, to fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	const noReplace, exchange = 1, 2
	old := to.EmbeddedInode().GetChild(newName)
	switch {
	case flags != 0 && flags != noReplace && flags != exchange:
		return syscall.EINVAL
	case flags == exchange && old == nil:
		return syscall.ENOENT
	case flags == exchange:
		n.t.mu.Lock()
		defer n.t.mu.Unlock()
		return n.t.cut(true)
	case old != nil && flags&noReplace != 0:
		return syscall.EEXIST
	case old != nil && len(old.Children()) > 0:
		return syscall.ENOTEMPTY
	}
	n.t.mu.Lock()
	defer n.t.mu.Unlock()
	return n.t.cut(true)
}

// Statfs is part of fs.NodeStatfser.
func (n *node) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	const blocks = 1 << 28 // 1 TiB
	out.Bsize, out.Frsize, out.NameLen = 4096, 4096, 255
	out.Blocks, out.Bfree, out.Bavail, out.Files, out.Ffree = blocks, blocks, blocks, blocks, blocks
	return 0
}
