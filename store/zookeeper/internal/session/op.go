package session

import "github.com/go-zookeeper/zk"

// AnyVersion is the version of a set or delete that is not compared.
const AnyVersion = -1

// Op is one operation of a multi.
type Op struct {
	// Path is the node of the operation.
	Path string

	request any
	size    int // of the request in bytes, about
}

// opBytes is the size of an operation without path and data, at most: header, lengths, access list.
const opBytes = 56

// Create creates a persistent node.
func Create(path string, data []byte) Op { return create(path, data, 0) }

// CreateEphemeral creates a node that ends with the session.
func CreateEphemeral(path string, data []byte) Op { return create(path, data, zk.FlagEphemeral) }

func create(path string, data []byte, flags int32) Op {
	r := &zk.CreateRequest{Path: path, Data: data, Flags: flags}
	return Op{path, r, opBytes + len(path) + len(data)}
}

// Set replaces the data of a node that has the version.
func Set(path string, data []byte, version int32) Op {
	r := &zk.SetDataRequest{Path: path, Data: data, Version: version}
	return Op{path, r, opBytes + len(path) + len(data)}
}

// Delete removes a node that has the version and no children.
func Delete(path string, version int32) Op {
	return Op{path, &zk.DeleteRequest{Path: path, Version: version}, opBytes + len(path)}
}

// Check requires that a node has the version. Versions of a node that was removed and created again begin at 0 again.
func Check(path string, version int32) Op {
	return Op{path, &zk.CheckVersionRequest{Path: path, Version: version}, opBytes + len(path)}
}

// Absent requires that a node does not exist. It creates and removes it: no other client observes that.
func Absent(path string) []Op { return []Op{Create(path, nil), Delete(path, AnyVersion)} }

// Childless requires that a node exists and has no children. It removes and creates it, without data: no other client
// observes that.
func Childless(path string) []Op { return []Op{Delete(path, AnyVersion), Create(path, nil)} }

// MostBytes bounds the sum of the operations of a multi, in bytes: servers refuse requests of 1 MiB.
const MostBytes = 1_000_000

// Size returns the size of the operations in bytes, about, to be compared with MostBytes.
func Size(ops []Op) (n int) {
	for i := range ops {
		n += ops[i].size
	}
	return n
}
