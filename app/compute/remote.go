package compute

import (
	"context"
	"os"
	"slices"

	"github.com/stagepost/stagepost/job"
)

// RemoteFile is an input that an order names by its URL. It is fetched when the job exists, before it is handed over.
type RemoteFile struct {
	Name   string `json:"name"` // among the files of the job
	URL    string `json:"url"`
	SHA256 string `json:"sha256,omitempty"` // hexadecimal; empty: not known
}

// Arrival is where a fetched file goes.
type Arrival struct {
	Root    *os.Root // the directory of the job
	Name    string   // below it; the file gets the name when it is complete and on the disk
	Scratch string   // directory below it for what is not complete; what an earlier call left there may be continued

	// Progress is notified of the bytes that are there and of the size, -1 if it is not known. Its error ends the call,
	// and is what the call gives.
	Progress func(have, size int64) error
}

// Source fetches inputs. An error whose method Temporary gives true may go away; any other one is final.
type Source interface {
	Fetch(ctx context.Context, f RemoteFile, to Arrival) error

	// Host names the machine that is asked for a URL; empty: none that could be kept busy.
	Host(url string) string
}

// missing lists the inputs that are still to be fetched.
func (s *Spec) missing(d *Data) (all []RemoteFile) {
	for _, f := range s.Fetch {
		if !slices.ContainsFunc(s.inputs(d), func(one File) bool { return one.Name == f.Name }) {
			all = append(all, f)
		}
	}
	return all
}

// inputs lists the files of a job that are here.
func (s *Spec) inputs(d *Data) []File {
	if len(d.Fetched) == 0 {
		return s.Files
	}
	return slices.Concat(s.Files, d.Fetched)
}

// InputsOf lists the files of a job that are here: those that came with its order, and those that were fetched since.
func InputsOf(j *job.Job) ([]File, error) {
	spec, err := SpecOf(j)
	if err != nil {
		return nil, err
	}
	d, err := DataOf(j)
	return spec.inputs(&d), err
}
