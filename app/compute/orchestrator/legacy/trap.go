package legacy

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator/policy"
)

// trapped gives a parcel whose run.sh has the trap that an original client demands. A script that is longer than such a
// client takes is cut, and refused by the client.
func trapped(p *compute.Parcel) (*compute.Parcel, error) {
	at := slices.IndexFunc(p.Files, func(f compute.File) bool { return f.Name == compute.Script })
	if at < 0 {
		return p, nil
	}
	f, err := p.Open(compute.Script)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, policy.MaxScript+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	text = policy.InjectTrap(text)
	q := *p
	q.Files = slices.Clone(p.Files)
	q.Files[at].Size, q.Files[at].SHA256 = int64(len(text)), ""
	q.Open = func(name string) (io.ReadSeekCloser, error) {
		if name == compute.Script {
			return inMemory{bytes.NewReader(text)}, nil
		}
		return p.Open(name)
	}
	return &q, nil
}

// inMemory is a small file.
type inMemory struct{ *bytes.Reader }

// Close is part of io.Closer.
func (inMemory) Close() error { return nil }
