package ocfl

import (
	"encoding/json"
	"fmt"
	"path"
)

// LayoutExtension is the registered storage layout of this package's roots.
const LayoutExtension = "0004-hashed-n-tuple-storage-layout"

const layoutDescription = "Objects lie at the hash of their id, cut into directories."

// Layout has the parameters of LayoutExtension. The zero value means DefaultLayout.
type Layout struct {
	ExtensionName   string `json:"extensionName"`
	DigestAlgorithm string `json:"digestAlgorithm"` // sha256, sha512, sha1, md5 or blake2b-512
	TupleSize       int    `json:"tupleSize"`       // characters per directory name, 0 to 32
	NumberOfTuples  int    `json:"numberOfTuples"`  // directories above the object, 0 to 32
	ShortObjectRoot bool   `json:"shortObjectRoot"` // the object's directory name omits the characters of the tuples
}

// DefaultLayout is the default of the extension: three directories of three characters below sha256.
func DefaultLayout() Layout {
	return Layout{ExtensionName: LayoutExtension, DigestAlgorithm: SHA256, TupleSize: 3, NumberOfTuples: 3}
}

func (l Layout) validate() error {
	h := newHash(l.DigestAlgorithm)
	switch {
	case l.ExtensionName != LayoutExtension:
		return fmt.Errorf("%w layout: extension %q (known: %s)", ErrInvalid, l.ExtensionName, LayoutExtension)
	case h == nil:
		return fmt.Errorf("%w layout: digest algorithm %q", ErrInvalid, l.DigestAlgorithm)
	case l.TupleSize < 0 || l.TupleSize > 32 || l.NumberOfTuples < 0 || l.NumberOfTuples > 32:
		return fmt.Errorf("%w layout: tupleSize %d and numberOfTuples %d must be 0 to 32", ErrInvalid, l.TupleSize,
			l.NumberOfTuples)
	case (l.TupleSize == 0) != (l.NumberOfTuples == 0):
		return fmt.Errorf("%w layout: tupleSize and numberOfTuples must be 0 together", ErrInvalid)
	}
	used, size := l.TupleSize*l.NumberOfTuples, 2*h.Size()
	if used > size || (l.ShortObjectRoot && used == size) {
		return fmt.Errorf("%w layout: %d tuples of %d leave nothing of the %d characters of %s", ErrInvalid,
			l.NumberOfTuples, l.TupleSize, size, l.DigestAlgorithm)
	}
	return nil
}

// Path returns the directory of the object id, relative to the storage root, with slashes. Any id is safe: only its
// hash reaches the file system.
func (l Layout) Path(id string) string {
	sum := digestOf(l.DigestAlgorithm, []byte(id))
	elements := make([]string, 0, l.NumberOfTuples+1)
	for i := range l.NumberOfTuples {
		elements = append(elements, sum[i*l.TupleSize:(i+1)*l.TupleSize])
	}
	name := sum
	if l.ShortObjectRoot {
		name = sum[l.TupleSize*l.NumberOfTuples:]
	}
	return path.Join(append(elements, name)...)
}

func parseLayout(data []byte) (Layout, error) {
	l := DefaultLayout()
	if err := json.Unmarshal(data, &l); err != nil {
		return Layout{}, fmt.Errorf("%w layout: %w", ErrInvalid, err)
	}
	return l, l.validate()
}
