package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/stagepost/stagepost/job"
)

// PDFDocument opens the document of a job that prints a PDF file and that the worker has claimed. The caller closes it.
func (c *Client) PDFDocument(ctx context.Context, worker string, id job.ID, epoch int64) (io.ReadCloser, error) {
	r, err := c.request(ctx, http.MethodGet, pdfPath(id, "/document"), pdfClaim(worker, epoch), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "*/*")
	answer, err := c.do(r)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// PutPDF sends the PDF file of a job that the worker has claimed, before it reports the job. It may be repeated.
func (c *Client) PutPDF(ctx context.Context, worker string, id job.ID, epoch int64, file []byte) error {
	sum, q := sha256.Sum256(file), pdfClaim(worker, epoch)
	q.Set("sha256", hex.EncodeToString(sum[:]))
	r, err := c.request(ctx, http.MethodPut, pdfPath(id, "/file"), q, bytes.NewReader(file))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/pdf")
	_, err = c.text(r)
	return err
}

func pdfPath(id job.ID, of string) string {
	return "/api/v1/archive/pdf/" + url.PathEscape(string(id)) + of
}

func pdfClaim(worker string, epoch int64) url.Values {
	return url.Values{"worker": {worker}, "epoch": {strconv.FormatInt(epoch, 10)}}
}
