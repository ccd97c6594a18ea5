package sign

import (
	"bufio"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/stagepost/stagepost/format/rfc3161"
)

// Verify verifies all time stamps of a document by the files beside it, without a network and without a catalog, and
// reports the first fault. open gives the document; nil: it is read from the directory. now is the time at which the
// newest time stamp must be valid. An error that wraps [ErrExpired], of the newest one or of a renewal that came too
// late, comes with the complete verification.
func Verify(
	dir fs.FS, document string, open func() (io.ReadCloser, error), trusted *rfc3161.Verifier, now time.Time,
) (Verification, error) {
	if open == nil {
		open = func() (io.ReadCloser, error) { return dir.Open(document) }
	}
	return verify(dir, document, &digester{open: open}, trusted, now, 0)
}

// verify verifies the time stamps up to a generation; 0: all. After a crash the files of a further one may exist that
// was not recorded.
func verify(
	dir fs.FS, document string, data *digester, trusted *rfc3161.Verifier, now time.Time, last int,
) (Verification, error) {
	v := &verification{dir: dir, document: document, data: data, trusted: trusted}
	for g := 1; last == 0 || g <= last; g++ {
		if _, err := fs.Stat(dir, namesOf(document, g).reply); errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err := v.generation(g); err != nil {
			return v.out, fmt.Errorf("time stamp %d of %s: %w", g, document, err)
		}
	}
	switch n := len(v.out.Stamps); {
	case n == 0:
		return v.out, fmt.Errorf("%s: %w", document, ErrNone)
	case now.After(v.out.Expires):
		return v.out, fmt.Errorf("time stamp %d of %s: %w: %s", n, document, ErrExpired,
			v.out.Expires.UTC().Format(time.RFC3339))
	}
	return v.out, v.late
}

type verification struct {
	dir      fs.FS
	document string
	data     *digester
	trusted  *rfc3161.Verifier
	earlier  []content // files of earlier generations
	out      Verification
	late     error // a renewal came too late
}

func (v *verification) read(name string) ([]byte, error) {
	f, err := v.dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return limited(f)
}

// generation verifies a time stamp: the first one is of the document, a later one of the list of what was before.
func (v *verification) generation(g int) error {
	names := namesOf(v.document, g)
	covered := v.data
	if g > 1 {
		text, err := v.read(names.list)
		if err != nil {
			return err
		}
		if err := v.list(text); err != nil {
			return err
		}
		v.earlier = append(v.earlier, content{names.list, text})
		covered = &digester{open: opening(text)}
	}
	t, err := v.stamp(names, covered)
	if err != nil {
		return err
	}
	if g > 1 && t.Time.After(v.out.Expires) && v.late == nil {
		v.late = fmt.Errorf("time stamp %d of %s: %w: it is of %s, and the one before expired on %s", g, v.document,
			ErrExpired, t.Time.Format(time.RFC3339), v.out.Expires.UTC().Format(time.RFC3339))
	}
	v.out.Expires = t.Expires()
	v.out.Stamps = append(v.out.Stamps, Stamp{
		Generation: g, Time: t.Time, Accuracy: t.Accuracy, Authority: t.Chain[0].Subject.String(),
		Serial: t.Serial.String(), Policy: t.Policy.String(), Algorithm: algorithm(t.Hash), Expires: t.Expires(),
	})
	return nil
}

// stamp verifies the answer of an authority: with its request if there is one, else by the content alone.
func (v *verification) stamp(names names, covered *digester) (*rfc3161.Token, error) {
	reply, err := v.read(names.reply)
	if err != nil {
		return nil, err
	}
	query, err := v.read(names.query)
	if err != nil {
		return nil, err
	}
	req, err := rfc3161.ParseRequest(query)
	if err != nil {
		return nil, err
	}
	if req.Digest, err = covered.of(req.Hash); err != nil { // what the content has, not what the request states
		return nil, err
	}
	for _, name := range names.all() {
		text, err := v.read(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		v.earlier = append(v.earlier, content{name, text})
	}
	return v.trusted.Reply(req, reply)
}

// list compares the list of a renewal with the document and the files of the earlier time stamps. It must list the
// document and each earlier answer and list.
func (v *verification) list(text []byte) error {
	listed := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	for lines.Scan() {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok || listed[name] != "" {
			return fmt.Errorf("%w: %q", ErrList, lines.Text())
		}
		listed[name] = sum
	}
	sum, err := v.data.of(hashes["sha512"])
	if err != nil {
		return err
	}
	files := map[string]string{path.Base(v.document): hex.EncodeToString(sum)}
	for _, f := range v.earlier {
		sum := sha512.Sum512(f.text)
		files[path.Base(f.name)] = hex.EncodeToString(sum[:])
	}
	for name, sum := range files {
		switch kind := path.Ext(name); {
		case listed[name] == sum:
		case listed[name] != "":
			return fmt.Errorf("%w: %s has another digest", ErrList, name)
		case name == path.Base(v.document), kind == ".tsr", kind == ".sha512":
			return fmt.Errorf("%w: %s is not listed", ErrList, name)
		}
		delete(listed, name)
	}
	for name := range listed {
		return fmt.Errorf("%w: %s is missing", ErrList, name)
	}
	return nil
}
