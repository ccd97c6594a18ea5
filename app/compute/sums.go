package compute

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/stagepost/stagepost/edge/collect"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// The digests of the single files of results are in a file of JSON values: the digest of the ZIP, and then a value for
// each file. A file of another ZIP counts as none: the process may have crashed before it wrote the one of this ZIP.

// fileSum is the digest of a file in the results.
type fileSum struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

// verified reads a received ZIP, which has the digest, to its end, and writes the digests of its files. It returns how
// many there are.
func verified(ctx context.Context, dir *os.Root, digest string) (files int, err error) {
	f, err := dir.Open(resultsName)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	err = durable.File{Root: dir, Name: sumsName}.Write(func(to *os.File) error {
		buffer := bufio.NewWriter(to)
		out := json.NewEncoder(buffer)
		if err := out.Encode(digest); err != nil {
			return err
		}
		list, err := collect.VerifyEach(ctx, f, info.Size(), func(name string, sum collect.Digest) error {
			return out.Encode(fileSum{name, sum.String()})
		})
		files = list.Files
		return errors.Join(err, buffer.Flush())
	})
	return files, err
}

// Sums returns the SHA-256 digests of the files in the results of a job by name. There are none of results that an
// earlier version fetched.
func (a *App) Sums(j *job.Job) (map[string]string, error) {
	d, err := DataOf(j)
	if err != nil || d.Results == nil {
		return nil, err
	}
	f, err := a.root.Open(path.Join(dirOf(j.ID), sumsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in, of, all := json.NewDecoder(bufio.NewReader(f)), "", map[string]string{}
	if err := in.Decode(&of); err != nil || of != d.Results.SHA256 {
		return nil, nil
	}
	for {
		var one fileSum
		switch err := in.Decode(&one); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, job.Errorf(job.Internal, "files", j.ID, "the digests of its results cannot be read: %w", err)
		}
		all[one.Name] = one.SHA256
	}
}
