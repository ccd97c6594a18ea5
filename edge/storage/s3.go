package storage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"golang.org/x/sync/errgroup"
)

// S3Options describe a bucket. Endpoint, Bucket, AccessKey and SecretKey are required.
type S3Options struct {
	Endpoint     string // host, or host:port
	Insecure     bool   // http in place of https
	Region       string
	Bucket       string
	Prefix       string // of all keys, without a slash at the end
	AccessKey    string
	SecretKey    string
	PathStyle    bool // the bucket is in the path of URLs, not in the host's name
	StorageClass string
	Tier         Tier  // defaults to Fast
	PartSize     int64 // defaults to 64 MiB, at least 5 MiB
	Parallel     int   // parts at once; defaults to 4

	// Lock sets object lock for each file: the mode GOVERNANCE or COMPLIANCE, and the time until which the service
	// refuses to delete it. Nil, or an empty mode: no lock.
	Lock func(key string) (mode string, until time.Time)

	Transport http.RoundTripper // nil: that of minio-go
}

// S3 is a bucket of an S3 service as a location.
type S3 struct {
	o    S3Options
	core *minio.Core
	keys keyed
}

const (
	minPart     = 5 << 20 // S3 permits smaller parts only at the end
	maxParts    = 10_000
	maxObject   = 5 << 40
	sumMetadata = "Stagepost-Sha256"
)

// OpenS3 makes a location of a bucket. It makes no request.
func OpenS3(o S3Options) (*S3, error) {
	o.PartSize = max(cmp.Or(o.PartSize, 64<<20), minPart)
	o.Parallel, o.Tier = cmp.Or(o.Parallel, 4), cmp.Or(o.Tier, Fast)
	lookup := minio.BucketLookupAuto
	if o.PathStyle {
		lookup = minio.BucketLookupPath
	}
	core, err := minio.NewCore(o.Endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(o.AccessKey, o.SecretKey, ""), Secure: !o.Insecure, Region: o.Region,
		BucketLookup: lookup, Transport: o.Transport, MaxRetries: 1, // the caller retries
	})
	s := &S3{o: o, core: core}
	if err != nil {
		return nil, s.fail("open", "", err)
	}
	return s, nil
}

func (s *S3) name() string { return "s3://" + path.Join(s.o.Endpoint, s.o.Bucket, s.o.Prefix) }

func (s *S3) object(key string) string { return path.Join(s.o.Prefix, key) }

// fail classifies an error by the code of the service.
func (s *S3) fail(op, key string, err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	out := &Error{Location: s.name(), Op: op, Key: key, Err: err, Transient: true}
	r := minio.ToErrorResponse(err)
	switch r.Code {
	case "NoSuchKey":
		out.Err, out.Transient = fmt.Errorf("%w (%w)", fs.ErrNotExist, err), op == "put"
	case "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "NoSuchBucket", "InvalidBucketName",
		"EntityTooLarge", "InvalidObjectState", "MethodNotAllowed", "NotImplemented", "InvalidArgument",
		"InvalidRequest":
		out.Transient = false
	}
	out.Transient = out.Transient && !refused(err)
	return out
}

func code(err error) string { return minio.ToErrorResponse(err).Code }

// upload is the state of a multipart upload.
type upload struct {
	ID   string `json:"id"`   // empty: it is being created
	Part int64  `json:"part"` // size of a part
}

// Put implements [Location]. A file of more than one part is sent in parts, and continues after a failure with those
// that the service lacks.
func (s *S3) Put(ctx context.Context, key string, src io.ReaderAt, c Content, p *Progress) error {
	if err := CheckKey(key); err != nil {
		return s.fail("put", key, err)
	}
	defer s.keys.lock(key)()
	return s.fail("put", key, s.put(ctx, key, src, c, p))
}

func (s *S3) put(ctx context.Context, key string, src io.ReaderAt, c Content, p *Progress) error {
	switch _, err := s.core.StatObject(ctx, s.o.Bucket, s.object(key), minio.StatObjectOptions{}); {
	case err == nil:
		return existing(ctx, s, key, c)
	case code(err) != "NoSuchKey":
		return err
	}
	var err error
	if c.Size <= s.o.PartSize {
		err = s.whole(ctx, key, src, c)
	} else {
		err = s.parts(ctx, key, src, c, p)
	}
	switch minio.ToErrorResponse(err).StatusCode {
	case http.StatusPreconditionFailed, http.StatusConflict: // the key came into being meanwhile
		return existing(ctx, s, key, c)
	}
	return err
}

// options are those of a new object. The service refuses it if the key exists.
func (s *S3) options(key string, c Content) minio.PutObjectOptions {
	o := minio.PutObjectOptions{
		ContentType: "application/octet-stream", StorageClass: s.o.StorageClass,
		UserMetadata:         map[string]string{sumMetadata: c.SHA256},
		DisableContentSha256: true, // the digest is of the whole, not of chunks
	}
	if s.o.Lock != nil {
		if mode, until := s.o.Lock(key); mode != "" {
			o.Mode, o.RetainUntilDate = minio.RetentionMode(mode), until
		}
	}
	o.SetMatchETagExcept("*")
	return o
}

// Hold sets or releases the legal hold of a file (object lock): while it is on, the service deletes no version of the
// file. The bucket must have object lock. A repetition changes nothing. A missing file wraps [fs.ErrNotExist].
func (s *S3) Hold(ctx context.Context, key string, on bool) error {
	if err := CheckKey(key); err != nil {
		return s.fail("hold", key, err)
	}
	status := minio.LegalHoldDisabled
	if on {
		status = minio.LegalHoldEnabled
	}
	return s.fail("hold", key, s.core.PutObjectLegalHold(ctx, s.o.Bucket, s.object(key),
		minio.PutObjectLegalHoldOptions{Status: &status}))
}

func (s *S3) whole(ctx context.Context, key string, src io.ReaderAt, c Content) error {
	body := io.NewSectionReader(src, 0, c.Size)
	sum := sha256.New()
	n, err := copyPaced(ctx, sum, body, nil)
	if err != nil {
		return err
	}
	if err := compare(c, n, sum, ErrSource); err != nil {
		return err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	var send io.Reader = &exact{body, c.Size}
	if c.Size == 0 {
		send = http.NoBody // else the length of the body would be unknown
	}
	_, err = s.core.PutObject(ctx, s.o.Bucket, s.object(key), send, c.Size, "", c.SHA256, s.options(key, c))
	return err
}

func (s *S3) parts(ctx context.Context, key string, src io.ReaderAt, c Content, p *Progress) error {
	up, have, err := s.resume(ctx, key, p)
	if err != nil {
		return err
	}
	if up.ID == "" {
		up.Part = max(s.o.PartSize, (c.Size+maxParts-1)/maxParts)
		if err := p.save(up); err != nil { // without an id: a crash can leave an upload whose id is not recorded
			return err
		}
		if up.ID, err = s.core.NewMultipartUpload(ctx, s.o.Bucket, s.object(key), s.options(key, c)); err != nil {
			return err
		}
		if err := p.save(up); err != nil {
			return errors.Join(err, s.abort(context.WithoutCancel(ctx), key, up.ID))
		}
	}
	count := int((c.Size + up.Part - 1) / up.Part)
	parts := make([]minio.CompletePart, count)
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(s.o.Parallel)
	for i := range count {
		from := int64(i) * up.Part
		size := min(up.Part, c.Size-from)
		if old, ok := have[i+1]; ok && old.Size == size {
			parts[i] = minio.CompletePart{PartNumber: i + 1, ETag: old.ETag}
			continue
		}
		group.Go(func() error {
			etag, err := s.part(within, key, up.ID, i+1, io.NewSectionReader(src, from, size), size)
			parts[i] = minio.CompletePart{PartNumber: i + 1, ETag: etag}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	// The parts of earlier attempts were read from the source then, and the source may have changed meanwhile: its
	// digest is compared before the object appears.
	sum := sha256.New()
	n, err := copyPaced(ctx, sum, io.NewSectionReader(src, 0, c.Size), nil)
	if err != nil {
		return err
	}
	if err := compare(c, n, sum, ErrSource); err != nil {
		return errors.Join(err, s.abort(ctx, key, up.ID))
	}
	_, err = s.core.CompleteMultipartUpload(ctx, s.o.Bucket, s.object(key), up.ID, parts, s.options(key, c))
	return err
}

// resume finds the parts that the service has of an earlier attempt.
func (s *S3) resume(
	ctx context.Context, key string, p *Progress,
) (up upload, have map[int]minio.ObjectPart, err error) {
	switch {
	case p == nil || len(p.State) == 0 || json.Unmarshal(p.State, &up) != nil || up.Part < minPart:
		return upload{}, nil, nil
	case up.ID == "":
		return upload{}, nil, s.abortAll(ctx, key)
	}
	have = map[int]minio.ObjectPart{}
	for marker := 0; ; {
		list, err := s.core.ListObjectParts(ctx, s.o.Bucket, s.object(key), up.ID, marker, 1000)
		if code(err) == "NoSuchUpload" { // it ended: completed, with the answer lost, or removed by the service
			return upload{}, nil, nil
		}
		if err != nil {
			return upload{}, nil, err
		}
		for _, one := range list.ObjectParts {
			have[one.PartNumber] = one
		}
		if !list.IsTruncated || list.NextPartNumberMarker <= marker {
			return up, have, nil
		}
		marker = list.NextPartNumberMarker
	}
}

// part sends one part. Without TLS its digest is part of the signature, so that the service refuses altered bytes.
func (s *S3) part(ctx context.Context, key, id string, number int, src *io.SectionReader, size int64) (string, error) {
	o := minio.PutObjectPartOptions{DisableContentSha256: true}
	if s.o.Insecure {
		sum := sha256.New()
		if _, err := copyPaced(ctx, sum, src, nil); err != nil {
			return "", err
		}
		o.Sha256Hex = hex.EncodeToString(sum.Sum(nil))
		if _, err := src.Seek(0, io.SeekStart); err != nil {
			return "", err
		}
	}
	got, err := s.core.PutObjectPart(ctx, s.o.Bucket, s.object(key), id, number, &exact{src, size}, size, o)
	return got.ETag, err
}

func (s *S3) abort(ctx context.Context, key, id string) error {
	err := s.core.AbortMultipartUpload(ctx, s.o.Bucket, s.object(key), id)
	if code(err) == "NoSuchUpload" {
		return nil
	}
	return err
}

// abortAll ends the uploads of a key, after a crash between the creation of one and the record of its id. Those of an
// account that may not list uploads stay until the service removes them.
func (s *S3) abortAll(ctx context.Context, key string) error {
	var after, afterID string
	for {
		list, err := s.core.ListMultipartUploads(ctx, s.o.Bucket, s.object(key), after, afterID, "", 1000)
		switch code(err) {
		case "NoSuchUpload", "AccessDenied", "NotImplemented", "MethodNotAllowed":
			return nil
		}
		if err != nil {
			return err
		}
		for _, one := range list.Uploads {
			if one.Key != s.object(key) {
				continue
			}
			if err := s.abort(ctx, key, one.UploadID); err != nil {
				return err
			}
		}
		if !list.IsTruncated || list.NextKeyMarker == after && list.NextUploadIDMarker == afterID {
			return nil
		}
		after, afterID = list.NextKeyMarker, list.NextUploadIDMarker
	}
}

// save keeps the state of an upload with the caller.
func (p *Progress) save(state any) error {
	if p == nil {
		return nil
	}
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	p.State = text
	if p.Save == nil {
		return nil
	}
	return p.Save(text)
}

// Abandon implements [Location].
func (s *S3) Abandon(ctx context.Context, key string, p *Progress) error {
	if err := CheckKey(key); err != nil {
		return s.fail("abandon", key, err)
	}
	defer s.keys.lock(key)()
	var up upload
	switch {
	case p == nil || len(p.State) == 0 || json.Unmarshal(p.State, &up) != nil:
		return nil
	case up.ID == "":
		return s.fail("abandon", key, s.abortAll(ctx, key))
	}
	return s.fail("abandon", key, s.abort(ctx, key, up.ID))
}

// Open implements [Location].
func (s *S3) Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	if err := CheckKey(key); err != nil {
		return nil, s.fail("open", key, err)
	}
	var o minio.GetObjectOptions
	if offset > 0 {
		if err := o.SetRange(offset, 0); err != nil {
			return nil, s.fail("open", key, err)
		}
	}
	r, _, _, err := s.core.GetObject(ctx, s.o.Bucket, s.object(key), o)
	if err != nil {
		return nil, s.fail("open", key, err)
	}
	return r, nil
}

// Stat implements [Location]. The digest is what Put stated; [Verify] computes it.
func (s *S3) Stat(ctx context.Context, key string) (Stat, error) {
	if err := CheckKey(key); err != nil {
		return Stat{}, s.fail("stat", key, err)
	}
	info, err := s.core.StatObject(ctx, s.o.Bucket, s.object(key), minio.StatObjectOptions{})
	if err != nil {
		return Stat{}, s.fail("stat", key, err)
	}
	return Stat{Size: info.Size, SHA256: info.UserMetadata[sumMetadata]}, nil
}

// Delete implements [Location]. A service with object lock refuses it until the time of the lock.
func (s *S3) Delete(ctx context.Context, key string) error {
	if err := CheckKey(key); err != nil {
		return s.fail("delete", key, err)
	}
	err := s.core.RemoveObject(ctx, s.o.Bucket, s.object(key), minio.RemoveObjectOptions{})
	if code(err) == "NoSuchKey" {
		return nil
	}
	return s.fail("delete", key, err)
}

// Recall implements [Location]: it asks for a copy of an object of the classes GLACIER and DEEP_ARCHIVE, for seven
// days.
func (s *S3) Recall(ctx context.Context, key string) (ready bool, err error) {
	if err := CheckKey(key); err != nil {
		return false, s.fail("recall", key, err)
	}
	info, err := s.core.StatObject(ctx, s.o.Bucket, s.object(key), minio.StatObjectOptions{})
	if err != nil {
		return false, s.fail("recall", key, err)
	}
	switch class := info.Metadata.Get("X-Amz-Storage-Class"); {
	case class != "GLACIER" && class != "DEEP_ARCHIVE":
		return true, nil
	case info.Restore != nil:
		return !info.Restore.OngoingRestore, nil
	}
	var r minio.RestoreRequest
	r.SetDays(7)
	r.SetGlacierJobParameters(minio.GlacierJobParameters{Tier: minio.TierStandard})
	err = s.core.RestoreObject(ctx, s.o.Bucket, s.object(key), "", r)
	if code(err) == "RestoreAlreadyInProgress" {
		err = nil
	}
	return false, s.fail("recall", key, err)
}

// Free implements [Location]: a service states no free space, but the bucket must exist.
func (s *S3) Free(ctx context.Context) (int64, error) {
	switch ok, err := s.core.BucketExists(ctx, s.o.Bucket); {
	case err != nil:
		return -1, s.fail("free", "", err)
	case !ok:
		return -1, &Error{Location: s.name(), Op: "free", Err: errors.New("the bucket does not exist")}
	}
	return -1, nil
}

// Properties implements [Location].
func (s *S3) Properties() Properties {
	return Properties{Name: s.name(), Tier: s.o.Tier, MaxSize: maxObject}
}

// Close implements [Location].
func (s *S3) Close() error { return nil }
