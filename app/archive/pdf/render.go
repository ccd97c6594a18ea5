// Package pdf makes PDF/A-3b files (ISO 19005-3) of self-contained HTML files: Chromium prints, Ghostscript converts.
//
//	archive job ──Order──> job archive.pdf ──claim──> Worker ──Render──> Chromium ──> Ghostscript
//	     <──Result── files below one directory <──Put──┘
//
// Both programs run in a sandbox without network, with limits of time, memory and disk. The same document printed by
// the same versions of the programs gives the same bytes.
package pdf

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/stagepost/stagepost/edge/sandbox"
)

// Causes of failures.
const (
	CauseMissing  = "pdf-programs" // Chromium, Ghostscript or a colour profile is not installed
	CauseDocument = "pdf-document" // the document is empty, too large, or a login page
	CauseRender   = "pdf-render"   // a program failed, or its output is not what it should be
)

// Causes lists the causes that the package adds.
func Causes() []string { return []string{CauseMissing, CauseDocument, CauseRender} }

// Error is a document that was not printed.
type Error struct {
	cause     string
	temporary bool
	err       error
}

// Error is part of error.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.err }

// Cause is the word for filters.
func (e *Error) Cause() string { return e.cause }

// Temporary reports whether another attempt can succeed.
func (e *Error) Temporary() bool { return e.temporary }

// NewError makes the error of a document that was not printed, for other printers.
func NewError(cause string, temporary bool, err error) *Error { return &Error{cause, temporary, err} }

func failed(cause string, err error) *Error { return &Error{cause: cause, err: err} }

// Sandbox confines the programs. *sandbox.Sandbox is one.
type Sandbox interface {
	Run(ctx context.Context, c *sandbox.Command) (sandbox.Ending, error)
	Tier() string
}

// Options bound one document. Zero fields have the defaults.
type Options struct {
	Chromium    string        // program; defaults to the one that is installed
	Ghostscript string        // program; defaults to gs
	Profile     string        // file with the sRGB profile (ICC); defaults to that of Ghostscript
	Timeout     time.Duration // of each program; defaults to 5 min
	Memory      int64         // bytes of each program; defaults to 2 GiB
	Disk        int64         // bytes of all files of a document; defaults to 2 GiB
	MaxHTML     int64         // bytes of a document; defaults to 256 MiB
}

// Names in the directory of a document.
const (
	htmlName   = "in.html"
	plainName  = "plain.pdf"
	markName   = "pdfa.ps"
	resultName = "out.pdf"
)

// Renderer prints documents, several at once.
type Renderer struct {
	box     Sandbox
	options Options
}

// programs are tried in this order: a wrapper script of Debian reads files that the sandbox does not show.
var (
	chromiums = []string{"/usr/lib/chromium/chromium", "chromium", "chromium-browser", "google-chrome-stable"}
	profiles  = []string{"/usr/share/color/icc/ghostscript/srgb.icc", "/usr/share/color/icc/sRGB.icc",
		"/usr/share/color/icc/colord/sRGB.icc"}
)

// Find makes a renderer with the programs of this machine. The error names what is missing and how to install it.
// A sandbox that confines nothing is refused: the documents are those of strangers.
func Find(box Sandbox, o Options) (*Renderer, error) {
	o.Timeout = cmp.Or(o.Timeout, 5*time.Minute)
	o.Memory, o.Disk = cmp.Or(o.Memory, 2<<30), cmp.Or(o.Disk, 2<<30)
	o.MaxHTML = cmp.Or(o.MaxHTML, maxDocument)
	if box == nil || box.Tier() == sandbox.None {
		return nil, failed(CauseMissing, errors.New("PDF files need a sandbox: allow user namespaces or install "+
			"bubblewrap (stagepost compute agent doctor)"))
	}
	var missing []string
	find := func(set *string, candidates []string, name string) {
		if *set != "" {
			candidates = []string{*set}
		}
		*set = ""
		for _, one := range candidates {
			if path, err := exec.LookPath(one); err == nil {
				*set = path
				return
			}
		}
		missing = append(missing, name)
	}
	find(&o.Chromium, chromiums, "chromium")
	find(&o.Ghostscript, []string{"gs"}, "ghostscript")
	if o.Profile == "" {
		for _, one := range profiles {
			if _, err := os.Stat(one); err == nil {
				o.Profile = one
				break
			}
		}
	} else if _, err := os.Stat(o.Profile); err != nil {
		return nil, failed(CauseMissing, fmt.Errorf("the colour profile cannot be read: %w", err))
	}
	if o.Profile == "" && len(missing) == 0 {
		missing = append(missing, "icc-profiles-free")
	}
	if len(missing) > 0 {
		return nil, failed(CauseMissing, fmt.Errorf("PDF files need programs that are not installed: "+
			"apt-get install %s", strings.Join(missing, " ")))
	}
	return &Renderer{box, o}, nil
}

// Render prints a document (HTML, UTF-8) and writes the PDF/A-3b file to out. dir is an empty directory for its
// working files, which the caller removes. Errors: *Error; [ErrPage], [ErrEmpty] and [ErrLogin] are permanent.
func (r *Renderer) Render(ctx context.Context, dir string, p Page, document io.Reader, out io.Writer) error {
	if err := p.Check(); err != nil {
		return failed(CauseDocument, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	sum, err := r.prepare(root, &p, document)
	if err != nil {
		return err
	}
	if err := r.run(ctx, dir, "Chromium", r.print()); err != nil {
		return err
	}
	if err := regular(root, plainName); err != nil {
		return failed(CauseRender, fmt.Errorf("chromium: %w", err))
	}
	if err := root.WriteFile(markName, []byte(marks(r.options.Profile)), 0o600); err != nil {
		return err
	}
	if err := r.run(ctx, dir, "Ghostscript", r.convert(&p, sum)); err != nil {
		return err
	}
	if err := regular(root, resultName); err != nil {
		return failed(CauseRender, fmt.Errorf("ghostscript: %w", err))
	}
	body, err := root.ReadFile(resultName)
	if err != nil {
		return err
	}
	if body, err = Normalize(body); err != nil {
		return failed(CauseRender, err)
	}
	_, err = out.Write(body)
	return err
}

// prepare writes the document with its prelude and checks it. It returns the SHA-256 of both.
func (r *Renderer) prepare(root *os.Root, p *Page, document io.Reader) (sum []byte, err error) {
	f, err := root.OpenFile(htmlName, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	before, digest := p.prelude(), sha256.New()
	to := io.MultiWriter(f, digest)
	if _, err := io.WriteString(to, before); err != nil {
		return nil, err
	}
	n, err := io.Copy(to, io.LimitReader(document, r.options.MaxHTML+1))
	if err != nil {
		return nil, err
	}
	if n > r.options.MaxHTML {
		return nil, failed(CauseDocument, fmt.Errorf("the document has more than %d bytes", r.options.MaxHTML))
	}
	if _, err := f.Seek(int64(len(before)), io.SeekStart); err != nil {
		return nil, err
	}
	if err := CheckDocument(f); err != nil {
		return nil, failed(CauseDocument, err)
	}
	return digest.Sum(nil), f.Close()
}

// print is the command line of Chromium. Its own sandbox is off: it needs rights that ours does not give.
func (r *Renderer) print() []string {
	return []string{r.options.Chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--no-zygote", "--disable-extensions", "--disable-background-networking", "--disable-sync",
		"--disable-breakpad", "--disable-crash-reporter", "--hide-scrollbars", "--lang=en-US",
		// The user agent becomes the creator of the file. PDF/A does not allow the characters of the usual one.
		"--user-agent=Chromium", "--user-data-dir=/tmp/profile", "--no-pdf-header-footer",
		"--print-to-pdf=" + plainName, "file:///job/" + htmlName}
}

// convert is the command line of Ghostscript. Policy 2: what PDF/A does not allow is an error. The identifier in the
// metadata follows from the document.
func (r *Renderer) convert(p *Page, sum []byte) []string {
	id := fmt.Sprintf("%x-%x-8%s-8%s-%x", sum[:4], sum[4:6], hex.EncodeToString(sum[6:8])[1:],
		hex.EncodeToString(sum[8:10])[1:], sum[10:16]) // a UUID of version 8 (RFC 9562)
	argv := []string{r.options.Ghostscript, "-dPDFA=3", "-dBATCH", "-dNOPAUSE", "-dQUIET", "-dSAFER",
		"-sDEVICE=pdfwrite", "-sColorConversionStrategy=RGB", "-dPDFACompatibilityPolicy=2",
		"--permit-file-read=" + r.options.Profile, "-sDocumentUUID=" + id, "-sOutputFile=" + resultName}
	if p.Images != nil {
		for _, kind := range []string{"Color", "Gray"} {
			argv = append(argv, "-dDownsample"+kind+"Images=true", "-d"+kind+"ImageDownsampleThreshold=1.0",
				"-d"+kind+"ImageDownsampleType=/Bicubic", fmt.Sprintf("-d%sImageResolution=%d", kind, p.resolution()),
				"-dAutoFilter"+kind+"Images=false", "-d"+kind+"ImageFilter=/DCTEncode")
		}
		argv = append(argv, fmt.Sprintf("-dJPEGQ=%d", p.Images.Quality))
	}
	return append(argv, markName, plainName)
}

// marks is the PostScript that gives the output intent of PDF/A (ISO 19005-3, 6.2.3).
func marks(profile string) string {
	quoted := strings.NewReplacer(`\`, `\\`, "(", `\(`, ")", `\)`).Replace(profile)
	return "%!\n[/_objdef {icc} /type /stream /OBJ pdfmark\n[{icc} << /N 3 >> /PUT pdfmark\n" +
		"[{icc} (" + quoted + ") (r) file /PUT pdfmark\n[/_objdef {intent} /type /dict /OBJ pdfmark\n" +
		"[{intent} << /Type /OutputIntent /S /GTS_PDFA1 /DestOutputProfile {icc} " +
		"/OutputConditionIdentifier (sRGB) >> /PUT pdfmark\n" +
		"[{Catalog} << /OutputIntents [ {intent} ] >> /PUT pdfmark\n"
}

// run runs one of the programs.
func (r *Renderer) run(ctx context.Context, dir, name string, argv []string) error {
	said := &tail{}
	end, err := r.box.Run(ctx, &sandbox.Command{
		Argv: argv, Dir: dir, Stdout: said, Stderr: said,
		// The time of every file (Reproducible Builds, SOURCE_DATE_EPOCH): 1980-01-01.
		Env:   []string{"SOURCE_DATE_EPOCH=315532800", "TZ=UTC"},
		Binds: []sandbox.Bind{{From: r.options.Profile}},
		Limits: sandbox.Limits{Wall: r.options.Timeout, Memory: r.options.Memory, Disk: r.options.Disk,
			Processes: 512, Output: 1 << 20},
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("%s cannot be run: %w", name, err)
	case end.Cause != sandbox.Itself:
		return &Error{CauseRender, true, fmt.Errorf("%s: %s", name, end.Sentence)}
	case end.Exit != 0:
		return &Error{CauseRender, true, fmt.Errorf("%s: %s: %s", name, end.Sentence, said)}
	}
	if name == "Ghostscript" && bytes.Contains(said.text, []byte("PDF/A")) {
		return failed(CauseRender, fmt.Errorf("ghostscript: %s", said))
	}
	return nil
}

// tail keeps the end of what a program prints.
type tail struct{ text []byte }

// Write is part of io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.text = append(t.text, b...)
	if most := 2000; len(t.text) > most {
		t.text = t.text[len(t.text)-most:]
	}
	return len(b), nil
}

// String gives one line.
func (t *tail) String() string { return strings.Join(strings.Fields(string(t.text)), " ") }

// regular refuses what is not a file with content: the directory was a stranger's.
func regular(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	switch {
	case err != nil:
		return fmt.Errorf("it wrote no file: %w", err)
	case !info.Mode().IsRegular() || info.Size() == 0:
		return errors.New("it wrote no file with content")
	}
	return nil
}

// identifier is the entry of the trailer that Ghostscript makes by chance (ISO 32000-1, 14.4).
var identifier = regexp.MustCompile(`/ID \[<([0-9A-F]{32})><([0-9A-F]{32})>\]`)

// Normalize checks that a file of Ghostscript is complete and PDF/A-3b, and replaces its identifier by one that follows
// from the content.
func Normalize(body []byte) ([]byte, error) {
	switch {
	case !bytes.HasPrefix(body, []byte("%PDF-")) || !bytes.Contains(body[max(0, len(body)-64):], []byte("%%EOF")):
		return nil, errors.New("ghostscript wrote no complete PDF file")
	case !bytes.Contains(body, []byte("pdfaid:part='3'")) || !bytes.Contains(body, []byte("pdfaid:conformance='B'")):
		return nil, errors.New("ghostscript did not write PDF/A-3b")
	}
	all := identifier.FindAllSubmatchIndex(body, -1)
	if len(all) == 0 {
		return nil, errors.New("the PDF file has no identifier")
	}
	at := all[len(all)-1]
	zero := bytes.Repeat([]byte("0"), 32)
	copy(body[at[2]:at[3]], zero)
	copy(body[at[4]:at[5]], zero)
	id := strings.ToUpper(digest(body))[:32]
	copy(body[at[2]:at[3]], id)
	copy(body[at[4]:at[5]], id)
	return body, nil
}

// Parallel is how many documents this machine prints at once without harm.
func Parallel() int { return max(1, runtime.NumCPU()/2) }

// scratch makes a directory for the files of one document.
func scratch(parent string) (dir string, remove func(), err error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", nil, err
	}
	if dir, err = os.MkdirTemp(parent, "print-"); err != nil {
		return "", nil, err
	}
	dir, err = filepath.Abs(dir)
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
